//! Metrics and the status page: valid by Prometheus' own checker, true by the console, the page by Chromium.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rstest::rstest;
use serde_json::Value;
use trireme_tests::browser::Browser;
use trireme_tests::console::{ask, counter};
use trireme_tests::files::Scratch;
use trireme_tests::guest::Guest;
use trireme_tests::images::image;
use trireme_tests::network::{TAP, isolate_with_tap, static_address};
use trireme_tests::program::{curl, run, succeed};
use trireme_tools::arch::Arch;
use trireme_tools::qemu::{Machine, Network};
use trireme_tools::setup::promtool;

const LIMIT: Duration = Duration::from_secs(60);
const TOKEN: &str = "correct-horse-battery";
const PAGE: &str = "http://10.77.0.2/.status/";
const METRICS: &str = "http://10.77.0.2/.status/metrics";

/// Boots an image on the TAP of a fresh namespace and waits for a line of its console.
fn boot(app: &str, arch: Arch, arguments: &str, ready: &str) -> Guest {
    isolate_with_tap();
    let mut machine = Machine::new(arch, &image(app, arch).boot);
    machine.network = Network::Tap(TAP.to_owned());
    machine.append = format!("{} {arguments}", static_address());
    let guest = Guest::boot(&machine);
    guest.wait_for(ready, LIMIT);
    guest
}

fn web_server(arch: Arch) -> Guest {
    let arguments = format!("env.TRIREME_STATUS_TOKEN={TOKEN} -- --status --bytes");
    boot("httpd", arch, &arguments, "listening on http://[::]:80/")
}

/// A scraped document.
struct Metrics(String);

impl Metrics {
    fn scrape() -> Metrics {
        Metrics(curl(&[METRICS], LIMIT))
    }

    /// The value of one sample, as it stands in the document.
    fn text(&self, sample: &str) -> &str {
        let found = self.0.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {sample} in:\n{}", self.0))
    }

    fn value(&self, sample: &str) -> u64 {
        self.text(sample).parse().expect("an integer")
    }

    fn seconds(&self, sample: &str) -> f64 {
        self.text(sample).parse().expect("a number")
    }
}

/// Fails with what promtool has to say against a document; its hints count as errors.
fn check_with_promtool(document: &str) {
    let scratch = Scratch::new();
    let file = scratch.file("metrics");
    fs::write(&file, document).unwrap();
    let script = "exec \"$0\" check metrics <\"$1\"";
    let program = promtool::program().unwrap();
    let words = ["-c", script, program.to_str().unwrap(), file.to_str().unwrap()];
    let output = run("sh", &words, LIMIT);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "promtool: {said}\n{document}");
}

fn feature(guest: &mut Guest, name: &str) -> String {
    let answer = ask(guest, "ethtool -k eth0");
    let line = answer.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in:\n{answer}")).to_owned()
}

/// Posts an order; the status code.
fn post(order: &str, token: Option<&str>) -> String {
    let url = format!("{PAGE}feature/{order}");
    let mut words = vec!["-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "-m", "50"];
    let field = token.map(|token| format!("Authorization: Bearer {token}"));
    if let Some(field) = &field {
        words.extend(["-H", field]);
    }
    words.push(&url);
    succeed("curl", &words, LIMIT)
}

fn fetch(length: usize) {
    let url = format!("http://10.77.0.2/bytes/{length}");
    curl(&["-o", "/dev/null", &url], LIMIT);
}

#[rstest]
fn metrics_are_valid_and_agree_with_the_console(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let mut guest = web_server(arch);
    fetch(5_000_000);
    // What is counted goes on while it is read, so the console's answer lies between two documents'.
    let before = Metrics::scrape();
    check_with_promtool(&before.0);
    let console = ask(&mut guest, "ethtool -S eth0");
    let after = Metrics::scrape();
    for (sample, name) in [
        ("receive_bytes_total{device=\"eth0\"}", "rx_bytes"),
        ("transmit_bytes_total{device=\"eth0\"}", "tx_bytes"),
        ("receive_frames_total{device=\"eth0\"}", "rx_packets"),
        ("transmit_checksums_total{device=\"eth0\",by=\"card\",how=\"frame\"}", "tx_csum_hw"),
        ("transmit_checksums_total{device=\"eth0\",by=\"software\",how=\"summed\"}", "tx_csum_sw"),
        ("transmit_segments_total{device=\"eth0\",by=\"card\"}", "tx_tso_segments"),
        ("receive_checksums_total{device=\"eth0\",by=\"card\",how=\"partial\"}", "rx_csum_partial"),
        ("tcp_retransmits_total{device=\"eth0\"}", "tx_tcp_retransmits"),
        ("events_total{device=\"eth0\",event=\"tx_kicks\"}", "tx_kicks"),
    ] {
        let shown = counter(&console, name);
        let sample = format!("trireme_network_{sample}");
        let between = before.value(&sample)..=after.value(&sample);
        assert!(between.contains(&shown), "{sample}: {shown} is not in {between:?}");
    }
    assert!(after.value("trireme_network_transmit_bytes_total{device=\"eth0\"}") > 5_000_000);
    assert!(
        after.value("trireme_network_transmit_segments_total{device=\"eth0\",by=\"card\"}") > 3000
    );
    assert_eq!(after.value("trireme_sockets{protocol=\"tcp\",state=\"established\"}"), 1);
    let memory = after.value("trireme_memory_used_bytes")..after.value("trireme_memory_size_bytes");
    assert!(
        memory.start > 100_000 && memory.end > 64 << 20 && memory.end <= 128 << 20,
        "{memory:?}"
    );

    // Nothing to do for a second or more: the processor sleeps for most of it, however slow the host is with the rest.
    let idle_share = || {
        let seconds = |m: &Metrics| {
            let idle = m.seconds("trireme_cpu_seconds_total{mode=\"idle\"}");
            let busy = m.seconds("trireme_cpu_seconds_total{mode=\"busy\"}");
            assert!((idle + busy - m.seconds("trireme_uptime_seconds")).abs() < 0.001);
            (idle, idle + busy)
        };
        let first = seconds(&Metrics::scrape());
        thread::sleep(Duration::from_millis(1500));
        let last = seconds(&Metrics::scrape());
        (last.0 - first.0) / (last.1 - first.1)
    };
    let deadline = Instant::now() + LIMIT;
    while idle_share() < 0.8 {
        assert!(Instant::now() < deadline, "an idle machine is not idle");
    }
}

#[rstest]
fn only_the_token_switches_and_traffic_moves_to_software(
    #[values(Arch::X86_64, Arch::Aarch64)] arch: Arch,
) {
    let mut guest = web_server(arch);
    let order = "eth0/tx-checksumming/off";
    assert_eq!(feature(&mut guest, "tx-checksumming"), "on");
    assert_eq!(post(order, None), "401");
    assert_eq!(post(order, Some("correct-horse-batterx")), "401");
    assert_eq!(post(order, Some("correct-horse")), "401");
    assert_eq!(
        run("curl", &["-sf", &format!("{PAGE}feature/{order}")], LIMIT).status.code(),
        Some(22)
    );
    let metrics = Metrics::scrape();
    assert_eq!(metrics.value("trireme_status_token_failures_total{reason=\"missing\"}"), 1);
    assert_eq!(metrics.value("trireme_status_token_failures_total{reason=\"wrong\"}"), 2);
    assert_eq!(metrics.value("trireme_status_switches_total{result=\"done\"}"), 0);
    assert_eq!(feature(&mut guest, "tx-checksumming"), "on", "a wrong token changes nothing");

    let by =
        |by: &str| format!("trireme_network_transmit_checksums_total{{device=\"eth0\",by=\"{by}\"");
    let software = format!("{},how=\"summed\"}}", by("software"));
    let card = format!("{},how=\"segment\"}}", by("card"));
    fetch(1_000_000);
    let on = Metrics::scrape();
    assert_eq!(post(order, Some(TOKEN)), "200");
    assert_eq!(feature(&mut guest, "tx-checksumming"), "off");
    // The document before was itself sent with the card's help.
    let switched = Metrics::scrape();
    fetch(1_000_000);
    let off = Metrics::scrape();
    assert_eq!(
        off.value("trireme_network_feature_enabled{device=\"eth0\",feature=\"tx-checksumming\"}"),
        0
    );
    assert!(on.value(&card) > 600, "{}", on.0);
    assert!(off.value(&software) - on.value(&software) > 600, "{}", off.0);
    assert_eq!(off.value(&card), switched.value(&card));
    assert_eq!(post("eth0/tx-checksumming/on", Some(TOKEN)), "200");
    assert_eq!(feature(&mut guest, "tx-checksumming"), "on");

    assert_eq!(post("eth0/scatter-gather/on", Some(TOKEN)), "409", "fixed on this card");
    for nonsense in ["eth1/tx/off", "eth0/sail/on", "eth0/tx/maybe", "eth0/tx", "eth0/tx/off/on"] {
        assert_eq!(post(nonsense, Some(TOKEN)), "404", "{nonsense}");
    }
    // Guessing: a few are looked at, then none, and not even the right one for a while.
    let guesses: Vec<String> = (0..5).map(|_| post(order, Some("guess-a-guess"))).collect();
    assert_eq!(guesses.last().unwrap(), "429", "{guesses:?}");
    assert_eq!(post(order, Some(TOKEN)), "429");
    assert_eq!(feature(&mut guest, "tx-checksumming"), "on");
    assert!(
        Metrics::scrape().value("trireme_status_token_failures_total{reason=\"limited\"}") >= 2
    );
}

#[rstest]
fn a_port_of_its_own_takes_one_line(#[values(Arch::X86_64, Arch::Aarch64)] arch: Arch) {
    let mut guest = boot("status", arch, "", "status on port 9100");
    let metrics = curl(&["http://10.77.0.2:9100/metrics"], LIMIT);
    check_with_promtool(&metrics);
    assert!(metrics.contains("\ntrireme_status_switching_enabled 0\n"), "{metrics}");
    let page = curl(&["--compressed", "http://10.77.0.2:9100/"], LIMIT);
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    let refused =
        run("curl", &["-sf", "-X", "POST", "http://10.77.0.2:9100/feature/eth0/tx/off"], LIMIT);
    assert_eq!(refused.status.code(), Some(22), "without a token nothing is switched");
    assert_eq!(feature(&mut guest, "tx-checksumming"), "on");
}

/// What the page shows of one exact number: the digits of an element's tooltip.
fn shown(browser: &mut Browser, selector: &str) -> u64 {
    let text = browser.value(&format!("document.querySelector({selector:?}).title"));
    let digits: String = text.as_str().unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{selector} has no number: {text}"))
}

#[test]
fn the_page_shows_what_the_metrics_say_and_switches_with_the_token() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let mut guest = web_server(Arch::Aarch64);
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.file("profile"));
    browser.show(1000, 800, "light");
    browser.open(PAGE);
    browser.wait_for("document.querySelector('#live')?.textContent === 'live'", LIMIT);
    // Traffic, for as long as the page takes to show it. The namespace is this thread's and its children's.
    let traffic = thread::spawn(|| {
        while !DONE.load(Ordering::Relaxed) {
            fetch(3_000_000);
            thread::sleep(Duration::from_millis(700));
        }
    });
    let received = ".card[data-device=eth0] output[data-direction=in]";
    let sent = ".card[data-device=eth0] output[data-direction=out]";
    browser
        .wait_for(&format!("/[kM]bit/.test(document.querySelector('{sent}').textContent)"), LIMIT);
    browser.wait_for("/% card/.test(document.querySelectorAll('.share b')[1].textContent)", LIMIT);
    DONE.store(true, Ordering::Relaxed);
    traffic.join().unwrap();

    // The page's numbers lie between those of two documents, one fetched before it looked and one after.
    let before = Metrics::scrape();
    let counted = shown(&mut browser, sent);
    browser.wait_for(
        &format!("Number(document.querySelector('{sent}').title.replace(/\\D/g, '')) > {counted}"),
        LIMIT,
    );
    let on_page = [shown(&mut browser, received), shown(&mut browser, sent)];
    let after = Metrics::scrape();
    for (direction, value) in ["receive", "transmit"].iter().zip(on_page) {
        let sample = format!("trireme_network_{direction}_bytes_total{{device=\"eth0\"}}");
        let between = before.value(&sample)..=after.value(&sample);
        assert!(between.contains(&value), "{direction}: {value} is not in {between:?}");
    }
    let states = "Object.fromEntries([...document.querySelectorAll('[data-feature]')].map((e) => \
                  [e.dataset.feature, e.dataset.state]))";
    let states = browser.value(states);
    let states = states.as_object().unwrap();
    assert!(states.len() >= 6, "{states:?}");
    for (name, state) in states {
        let labels = format!("{{device=\"eth0\",feature=\"{name}\"}}");
        let on = after.value(&format!("trireme_network_feature_enabled{labels}")) == 1;
        let fixed = after.value(&format!("trireme_network_feature_fixed{labels}")) == 1;
        let wanted =
            format!("{}{}", if on { "on" } else { "off" }, if fixed { " fixed" } else { "" });
        assert_eq!(state, &Value::from(wanted), "{name}");
    }

    // A wrong token: said so, counted, nothing changed. The right one switches.
    let unlock = |browser: &mut Browser, token: &str| {
        browser.wait_for("!document.querySelector('#unlock').hidden", LIMIT);
        browser.value(&format!(
            "document.querySelector('#token').value = {token:?}; document.querySelector('#unlock button').click()"
        ));
        let switch = "document.querySelector('[role=switch][aria-label=tx-checksumming]')";
        browser.wait_for(&format!("{switch} !== null"), LIMIT);
        browser.value(&format!("{switch}.click()"));
    };
    unlock(&mut browser, "not-the-token");
    browser.wait_for(
        "document.querySelector('#message').textContent === 'This is not the token.'",
        LIMIT,
    );
    assert_eq!(feature(&mut guest, "tx-checksumming"), "on");
    let wrong = Metrics::scrape().value("trireme_status_token_failures_total{reason=\"wrong\"}");
    assert_eq!(wrong, 1);
    unlock(&mut browser, TOKEN);
    browser.wait_for(
        "document.querySelector('[role=switch][aria-label=tx-checksumming]')?.ariaChecked === 'false'",
        LIMIT,
    );
    assert_eq!(feature(&mut guest, "tx-checksumming"), "off");

    // It fits a phone, fetches from nowhere else, and breaks neither its own policy nor down.
    browser.show(360, 740, "dark");
    browser.wait_for("document.documentElement.scrollWidth <= window.innerWidth", LIMIT);
    let fetched = browser.fetched();
    let foreign = |url: &&String| !url.starts_with(PAGE) && !url.starts_with("data:");
    assert_eq!(fetched.iter().find(foreign), None);
    assert!(fetched.iter().filter(|url| *url == METRICS).count() > 2, "{fetched:?}");
    // The browser itself notes the answer to the wrong token.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|c| c.contains("401")), "{complaints:?}");
}

/// Not a check: makes the pictures of docs/status.md, in the build folder, with traffic as steady as a screenshot wants.
#[test]
#[ignore = "makes pictures: cargo nextest run -p trireme-tests --run-ignored only pictures"]
fn pictures() {
    let _guest = web_server(Arch::Aarch64);
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.file("profile"));
    browser.show(1000, 800, "light");
    browser.open(PAGE);
    let mut traffic = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "--limit-rate", "3M", "http://10.77.0.2/bytes/1000000000"])
        .spawn()
        .unwrap();
    for (order, seconds) in [
        ("eth0/large-receive-offload/on", 20),
        ("eth0/tcp-segmentation-offload/off", 12),
        ("eth0/tx-checksumming/off", 12),
        ("eth0/tx-checksumming/on", 5),
        ("eth0/tcp-segmentation-offload/on", 10),
    ] {
        assert_eq!(post(order, Some(TOKEN)), "200");
        thread::sleep(Duration::from_secs(seconds));
    }
    for (name, width, scheme) in
        [("light", 1000, "light"), ("dark", 1000, "dark"), ("phone", 390, "dark")]
    {
        browser.show(width, 800, scheme);
        thread::sleep(Duration::from_secs(2));
        fs::write(scratch.file("base64"), browser.screenshot()).unwrap();
        let picture =
            Command::new("base64").arg("-d").arg(scratch.file("base64")).output().unwrap();
        let path =
            trireme_tools::workspace::target_directory().join(format!("tests/status-{name}.png"));
        fs::write(path, picture.stdout).unwrap();
    }
    traffic.kill().unwrap();
    traffic.wait().unwrap();
}
