//! What our device trees must have, by the bindings Linux documents.
//!
//! \[B\] is Linux 6.12, `Documentation/devicetree/bindings`: each row is the list `required` of the file named, with what its conditions add
//! for the compatible. The whole of the bindings was checked by hand with dt-validate: see docs/boards/README.md.

use std::process::Command;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

use super::Board;

/// A compatible, and the properties (or, behind a slash, children) it requires.
const REQUIRED: [(&str, &str); 21] = [
    // timer/arm,arch_timer.yaml, interrupt-controller/arm,gic.yaml, arm,gic-v3.yaml, arm/psci.yaml
    ("arm,armv8-timer", "interrupts"),
    ("arm,gic-400", "reg interrupt-controller #interrupt-cells"),
    ("arm,gic-v3", "reg interrupts interrupt-controller #interrupt-cells"),
    ("arm,psci-0.2", "method"),
    // clock/fixed-clock.yaml, renesas,cpg-mssr.yaml, renesas,rzg2l-cpg.yaml
    ("fixed-clock", "#clock-cells clock-frequency"),
    ("renesas,r8a7795-cpg-mssr", "reg clocks clock-names #clock-cells #power-domain-cells"),
    (
        "renesas,r9a07g044-cpg",
        "reg clocks clock-names #clock-cells #power-domain-cells #reset-cells",
    ),
    // serial/renesas,scif.yaml, 8250.yaml
    ("renesas,rcar-gen3-scif", "reg interrupts clocks clock-names power-domains resets"),
    (
        "renesas,scif-r9a07g044",
        "reg interrupts interrupt-names clocks clock-names power-domains resets",
    ),
    ("ns16550a", "reg interrupts"),
    // net/renesas,etheravb.yaml, ethernet-controller.yaml, ethernet-phy.yaml
    (
        "renesas,etheravb-r8a7795",
        "reg interrupts clocks power-domains resets phy-mode phy-handle tx-internal-delay-ps \
         #address-cells #size-cells",
    ),
    (
        "renesas,rzg2l-gbeth",
        "reg interrupts interrupt-names clocks clock-names power-domains resets phy-mode phy-handle \
         #address-cells #size-cells",
    ),
    ("ethernet-phy-ieee802.3-c22", "reg"),
    // watchdog/renesas,wdt.yaml, faraday,ftwdt010.yaml
    ("renesas,rcar-gen3-wdt", "reg interrupts clocks power-domains resets"),
    ("renesas,rzg2l-wdt", "reg interrupts interrupt-names clocks clock-names power-domains resets"),
    ("faraday,ftwdt010", "reg"),
    // net/cortina,gemini-ethernet.yaml with its ports, net/dsa/realtek.yaml
    ("cortina,gemini-ethernet", "reg ranges #address-cells #size-cells"),
    ("cortina,gemini-ethernet-port", "reg interrupts clocks clock-names resets"),
    ("realtek,rtl8366rb", "mdc-gpios mdio-gpios /mdio /ports"),
    // gpio/faraday,ftgpio010.yaml, interrupt-controller/faraday,ftintc010.txt
    ("faraday,ftgpio010", "reg interrupts #gpio-cells interrupt-controller #interrupt-cells"),
    ("faraday,ftintc010", "reg interrupt-controller #interrupt-cells"),
];

/// Compatibles that say what a board or bus is, and need nothing; and those whose binding is prose.
const FREE: [&str; 5] = [
    "simple-bus",
    "cortina,gemini-syscon",
    "faraday,fttmr010",
    "virtual,mdio-gpio",
    "realtek,smi-mdio",
];

fn compatibles<'a>(node: &FdtNode<'a>) -> Vec<&'a str> {
    let bytes = node.properties().find(|property| property.name() == "compatible");
    let bytes = bytes.and_then(|property| property.value_as::<&[u8]>().ok()).unwrap_or_default();
    let names = bytes.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    names.filter(|name| !name.is_empty()).collect()
}

fn check(board: &str, node: &FdtNode<'_>, missing: &mut Vec<String>) {
    let names = compatibles(node);
    let rows = REQUIRED.iter().filter(|(name, _)| names.contains(name));
    let mut known = names.is_empty() || names.iter().any(|name| FREE.contains(name));
    for (name, required) in rows {
        known = true;
        for wanted in required.split_whitespace() {
            let there = match wanted.strip_prefix('/') {
                Some(child) => node.children().any(|node| node.name() == child),
                None => node.properties().any(|property| property.name() == wanted),
            };
            if !there {
                missing.push(format!("{board}: {}: {name} wants {wanted}", node.name()));
            }
        }
    }
    if !known && !node.name().is_empty() {
        missing.push(format!("{board}: {}: no binding for {names:?}", node.name()));
    }
    node.children().for_each(|child| check(board, &child, missing));
}

#[test]
fn trees_of_ours_have_what_the_bindings_require_and_dtc_has_no_complaint() {
    let mut missing = Vec::new();
    for name in Board::names().unwrap() {
        let Some(source) = Board::find(&name).unwrap().tree_source() else { continue };
        let mut dtc = Command::new("dtc");
        // The binding of Gemini's GPIO forbids the property that this one wants.
        dtc.args(["-W", "no-interrupt_provider", "-O", "dtb"]).arg(&source);
        let compiled = dtc.output().unwrap();
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success() && said.is_empty(), "{name}: {said}");
        check(&name, &Fdt::new(&compiled.stdout).unwrap().root(), &mut missing);
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn property_left_out_is_found() {
    let source = b"/dts-v1/; / { timer { compatible = \"arm,armv8-timer\"; }; x { compatible = \"a,b\"; }; };";
    let file = std::env::temp_dir().join(format!("trireme-bindings-{}.dts", std::process::id()));
    std::fs::write(&file, source).unwrap();
    let tree = Command::new("dtc").args(["-q", "-O", "dtb"]).arg(&file).output().unwrap().stdout;
    std::fs::remove_file(file).unwrap();
    let mut missing = Vec::new();
    check("none", &Fdt::new(&tree).unwrap().root(), &mut missing);
    let expected =
        ["none: timer: arm,armv8-timer wants interrupts", "none: x: no binding for [\"a,b\"]"];
    assert_eq!(missing, expected);
}
