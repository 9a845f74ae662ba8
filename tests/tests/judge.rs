//! Foreign drivers on our models, as `./run.sh judge` runs them: one guest per test.

use std::time::Duration;

use rstest::rstest;
use trireme_tools::judge::{CASES, Options, judge};

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
    let case = CASES[case];
    let options = Options {
        megabytes: 4,
        limit: Duration::from_secs(180),
        verbose: false,
        pcap: None,
        log: None,
    };
    let judgement = judge(&case, &options).unwrap_or_else(|e| panic!("{}: {e:#}", case.name()));
    assert!(judgement.is_good(), "{}: {judgement:#?}", case.name());
}
