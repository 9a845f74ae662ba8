// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * One interrupt for many. A carrier has a single pin, and R-Car Gen3's driver asks for a line per source and shares none
 * of them. So this is an interrupt controller whose every line fires with its own input: each handler then looks for
 * itself whether its source has something to say.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>

/* ch0 to ch24. */
#define LINES 25

static DECLARE_BITMAP(unmasked, LINES);
static DEFINE_RAW_SPINLOCK(lock);
static int input;

/* With no line unmasked nobody could make the card let go of the input, so that goes off too. */
static void line_mask(struct irq_data *line)
{
	raw_spin_lock(&lock);
	if (test_and_clear_bit(irqd_to_hwirq(line), unmasked) && bitmap_empty(unmasked, LINES))
		disable_irq_nosync(input);
	raw_spin_unlock(&lock);
}

static void line_unmask(struct irq_data *line)
{
	bool first;

	raw_spin_lock(&lock);
	first = bitmap_empty(unmasked, LINES);
	set_bit(irqd_to_hwirq(line), unmasked);
	if (first)
		enable_irq(input);
	raw_spin_unlock(&lock);
}

static struct irq_chip lines = {
	.name = "fanout",
	.irq_mask = line_mask,
	.irq_unmask = line_unmask,
};

static int line_map(struct irq_domain *domain, unsigned int irq, irq_hw_number_t number)
{
	irq_set_chip_and_handler(irq, &lines, handle_simple_irq);
	/* Most of the time it is another line that was meant: not to be counted as "nobody cared". */
	irq_set_status_flags(irq, IRQ_NO_DEBUG);
	return 0;
}

static const struct irq_domain_ops line_operations = {
	.map = line_map,
	.xlate = irq_domain_xlate_onecell,
};

static irqreturn_t input_fired(int irq, void *domain)
{
	unsigned int line;

	for_each_set_bit(line, unmasked, LINES)
		generic_handle_domain_irq(domain, line);
	return IRQ_HANDLED;
}

static int fanout_probe(struct platform_device *device)
{
	struct irq_domain *domain;

	input = platform_get_irq(device, 0);
	if (input < 0)
		return input;
	domain = irq_domain_add_linear(device->dev.of_node, LINES, &line_operations, NULL);
	if (!domain)
		return -ENOMEM;
	return devm_request_irq(&device->dev, input, input_fired, IRQF_NO_THREAD | IRQF_NO_AUTOEN,
				"fanout", domain);
}

static const struct of_device_id fanout_ids[] = {
	{ .compatible = "trireme,interrupt-fanout" },
	{ }
};

static struct platform_driver fanout = {
	.probe = fanout_probe,
	.driver = {
		.name = "fanout",
		.of_match_table = fanout_ids,
		.suppress_bind_attrs = true,
	},
};
builtin_platform_driver(fanout);

MODULE_DESCRIPTION("one interrupt for many");
MODULE_LICENSE("Dual MIT/GPL");
