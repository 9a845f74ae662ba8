//! Nothing is allocated for a packet, either way, once a connection's first few have passed.

#[path = "common/quiet.rs"]
mod quiet;

fn allocations(scenario: &str) -> u64 {
    let mut count = 0;
    quiet::run(scenario, 2000, 1000, |rounds| {
        count = allocation_counter::measure(rounds).count_total;
    });
    count
}

#[test]
fn none_for_any_packet() {
    let scenarios = [
        "poll",
        "get",
        "get+1000",
        "echo",
        "ack",
        "send",
        "receive",
        "receive small",
        "receive batch",
    ];
    for scenario in scenarios {
        assert_eq!(allocations(scenario), 0, "{scenario}");
    }
}

#[test]
fn the_count_counts() {
    let mut count = 0;
    quiet::run("ack", 0, 10, |rounds| {
        count = allocation_counter::measure(|| {
            rounds();
            drop(std::hint::black_box(Box::new(1)));
        })
        .count_total;
    });
    assert!(count > 0);
}
