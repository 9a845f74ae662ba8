//! The device trees we bring: dtc has nothing to say about them, and each node has what its binding requires.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use trireme_tools::board::{Board, Processor};
use trireme_tools::workspace;

/// What bindings require, by an entry of `compatible`. [Linux, Documentation/devicetree/bindings: arm,gic.yaml,
/// arm,gic-v3.yaml, arm,arch_timer.yaml, psci.yaml, renesas,scif.yaml, renesas,etheravb.yaml, renesas,cpg-mssr.yaml,
/// renesas,rzg2l-cpg.yaml, renesas,wdt.yaml, 8250.yaml, faraday,ftintc010.yaml, cortina,gemini-ethernet.yaml, fixed-clock.yaml,
/// ethernet-phy.yaml, faraday,ftwdt010.yaml, faraday,ftgpio010.yaml, net/dsa/realtek.yaml, of Linux 6.12, conditions included]
const REQUIRED: [(&str, &[&str]); 22] = [
    ("fixed-clock", &["#clock-cells", "clock-frequency"]),
    ("ethernet-phy-ieee802.3-c22", &["reg"]),
    ("renesas,etheravb-r8a7795", &["tx-internal-delay-ps"]),
    (
        "renesas,rzg2l-wdt",
        &[
            "reg",
            "interrupts",
            "interrupt-names",
            "clocks",
            "clock-names",
            "power-domains",
            "resets",
        ],
    ),
    ("faraday,ftwdt010", &["reg"]),
    (
        "faraday,ftgpio010",
        &["reg", "interrupts", "#gpio-cells", "interrupt-controller", "#interrupt-cells"],
    ),
    ("realtek,rtl8366rb", &["mdc-gpios", "mdio-gpios"]),
    ("arm,gic-400", &["reg", "interrupt-controller", "#interrupt-cells"]),
    ("arm,gic-v3", &["reg", "interrupt-controller", "#interrupt-cells", "interrupts"]),
    ("arm,armv8-timer", &["interrupts"]),
    ("arm,psci-1.0", &["method"]),
    ("renesas,rcar-gen3-scif", SCIF),
    ("renesas,scif-r9a07g044", SCIF),
    ("renesas,etheravb-rcar-gen3", RAVB),
    ("renesas,rzg2l-gbeth", RAVB),
    ("renesas,r8a7795-cpg-mssr", CPG),
    ("renesas,r9a07g044-cpg", CPG),
    ("renesas,rcar-gen3-wdt", &["reg", "interrupts", "clocks", "power-domains", "resets"]),
    ("ns16550a", &["reg", "interrupts", "clock-frequency"]),
    ("faraday,ftintc010", &["reg", "interrupt-controller", "#interrupt-cells"]),
    ("cortina,gemini-ethernet", &["reg", "ranges", "#address-cells", "#size-cells"]),
    (
        "cortina,gemini-ethernet-port",
        &["reg", "interrupts", "resets", "clocks", "clock-names", "phy-mode"],
    ),
];
/// What needs nothing, or has a binding in prose.
const FREE: [&str; 5] = [
    "simple-bus",
    "cortina,gemini-syscon",
    "faraday,fttmr010",
    "virtual,mdio-gpio",
    "realtek,smi-mdio",
];
const SCIF: &[&str] = &["reg", "interrupts", "clocks", "clock-names", "power-domains", "resets"];
const RAVB: &[&str] = &[
    "reg",
    "interrupts",
    "interrupt-names",
    "clocks",
    "power-domains",
    "resets",
    "phy-mode",
    "phy-handle",
    "#address-cells",
    "#size-cells",
];
const CPG: &[&str] =
    &["reg", "clocks", "clock-names", "#clock-cells", "#power-domain-cells", "#reset-cells"];

/// The trees, compiled; all of dtc's warnings are errors here.
fn trees() -> Vec<(Board, Vec<u8>)> {
    let mut trees = Vec::new();
    for name in Board::names().unwrap() {
        let board = Board::find(&name).unwrap();
        let Some(source) = board.tree.clone().filter(|tree| tree != "firmware") else { continue };
        let source: PathBuf = workspace::root().join("targets/boards").join(source);
        let blob = std::env::temp_dir().join(format!("trireme-{name}-{}.dtb", std::process::id()));
        let dtc = Command::new("dtc").args(["-O", "dtb", "-o"]).arg(&blob).arg(&source).output();
        let dtc = dtc.unwrap();
        assert!(
            dtc.status.success() && dtc.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&dtc.stderr)
        );
        trees.push((board, fs::read(&blob).unwrap()));
        fs::remove_file(blob).unwrap();
    }
    assert!(trees.len() >= 4, "trees were not found");
    trees
}

fn bytes<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    let property = node.properties().find(|property| property.name() == name)?;
    Some(property.value_as::<&'a [u8]>().unwrap_or_default())
}

fn check(board: &Board, node: &FdtNode<'_>, seen: &mut Vec<&'static str>) {
    let compatible = bytes(node, "compatible").unwrap_or_default();
    let known = |entry: &[u8]| {
        let names = REQUIRED.iter().map(|(name, _)| name).chain(&FREE);
        names.into_iter().any(|name| name.as_bytes() == entry)
    };
    // The root says which board it is.
    assert!(
        compatible.is_empty()
            || node.name().is_empty()
            || compatible.split(|byte| *byte == 0).any(known),
        "{}: no binding is known for {}",
        board.name,
        node.name()
    );
    if compatible.starts_with(b"realtek,rtl8366rb\0") {
        assert!(node.child("mdio").is_some() && node.child("ports").is_some());
    }
    for entry in compatible.split(|byte| *byte == 0) {
        let Some((name, required)) = REQUIRED.iter().find(|(name, _)| name.as_bytes() == entry)
        else {
            continue;
        };
        seen.push(name);
        for property in *required {
            assert!(
                bytes(node, property).is_some(),
                "{}: {} has no {property}",
                board.name,
                node.name()
            );
        }
    }
    for child in node.children() {
        check(board, &child, seen);
    }
}

#[test]
fn nodes_have_what_their_bindings_require() {
    let mut seen = Vec::new();
    for (board, blob) in trees() {
        let tree = Fdt::new(&blob).unwrap();
        check(&board, &tree.root(), &mut seen);
    }
    let unseen: Vec<_> = REQUIRED.iter().filter(|(name, _)| !seen.contains(name)).collect();
    assert!(unseen.is_empty(), "no tree has a node for {unseen:?}");
}

#[test]
fn every_tree_names_console_card_and_memory_as_boot_loaders_look_for_them() {
    for (board, blob) in trees() {
        let tree = Fdt::new(&blob).unwrap();
        let aliases = tree.root().child("aliases").unwrap();
        // U-Boot writes a card's address to the node of its alias. [U-Boot, common/fdt_support.c, fdt_fixup_ethernet]
        for alias in ["serial0", "ethernet0"] {
            let path = bytes(&aliases, alias).unwrap();
            let path = std::str::from_utf8(&path[1..path.len() - 1]).unwrap();
            let mut node = tree.root();
            for part in path.split('/') {
                node = node.child(part).unwrap_or_else(|| panic!("{}: {path}", board.name));
            }
        }
        let chosen = tree.root().child("chosen").unwrap();
        assert!(bytes(&chosen, "stdout-path").unwrap().starts_with(b"serial0:"));
        let cells = if board.arch == Processor::Aarch64 { 2 } else { 1 };
        let memory =
            tree.root().children().find(|node| node.name().starts_with("memory@")).unwrap();
        let reg = bytes(&memory, "reg").unwrap();
        let number =
            |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        assert_eq!(number(&reg[..4 * cells]), board.memory.start, "{}", board.name);
        assert_eq!(number(&reg[4 * cells..8 * cells]), board.memory.size, "{}", board.name);
        assert!(blob.len() < 16 << 10, "{} is not minimal: {} bytes", board.name, blob.len());
    }
}
