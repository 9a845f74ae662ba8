//! Foreign drivers on our models, as `./run.sh judge` runs them: one guest per test.

use std::time::Duration;

use rstest::rstest;
use trireme_tools::judge::{CASES, Case, GEMINI_CASES, Options, RAVB_CASES, judge};

#[test]
fn every_case_has_its_test() {
    assert_eq!(CASES.len(), 28, "`linux_is_content` has a list to be kept");
}

#[rstest]
fn linux_is_content(
    #[values(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27
    )]
    case: usize,
) {
    run(CASES[case], 4);
}

/// Short: `./run.sh judge gemini` has more tests, and more cases.
#[rstest]
fn linux_cuts_with_the_gemini_and_is_content(
    #[values("", "paced,late-status")] fault: &'static str,
) {
    let tests = match fault {
        "" => "up,ping,tcp,v6,both,stats,down",
        _ => "up,tcp,stats,down",
    };
    run(Case { fault, tests, ..GEMINI_CASES[0] }, 2);
}

/// Short: `./run.sh judge ravb` has more tests, and more cases.
#[rstest]
fn linux_is_content_with_ravb(#[values("gen2", "gen3", "gbeth")] chip: &'static str) {
    let tests = match chip {
        "gen2" => "up,tcp,stats,down",
        _ => "up,tcp,v6,offload,stats,down",
    };
    run(Case { chip, tests, ..RAVB_CASES[0] }, 2);
}

fn run(case: Case, megabytes: u64) {
    let options = Options {
        megabytes,
        limit: Duration::from_secs(180),
        verbose: false,
        pcap: None,
        log: None,
    };
    let judgement = judge(&case, &options).unwrap_or_else(|e| panic!("{}: {e:#}", case.name()));
    assert!(judgement.is_good(), "{}: {judgement:#?}", case.name());
}
