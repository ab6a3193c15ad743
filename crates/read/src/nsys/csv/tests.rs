//! Tables of `nsys stats`, as they are and as they should not be.

use super::*;

fn load_text(files: &[(&str, impl AsRef<[u8]>)]) -> Tables {
    let dir = tempfile::tempdir().expect("folder");
    let write = |(name, text): &(&str, _)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("file");
        path
    };
    load(&files.iter().map(write).collect::<Vec<_>>(), &RangeNames::default())
}

const HEAD: &str =
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n";

#[test]
fn notes_units_separators_and_ragged_rows() {
    let text = "NOTICE: Existing SQLite export found: x.sqlite\n\n ** CUDA GPU Kernel Summary:\n\n\
        Time(%),Total Time (us),Instances,Average,Min (us),Max (us),Name\n\
        50.0,\"1,000.5\",\"2,000\",0.5,0.4,0.6,_Z1av\n\
        25.0,10,1,10,10,10,_Z1bv,extra\n\
        25.0,oops,1,1,1,1,_Z1cv\n\
        25.0,10\n\
        Processing [x] with [y]...\n";
    let tables = load_text(&[("k_mangled.csv", text)]);
    assert_eq!(tables.counts.kernels, 2001);
    assert_eq!(tables.counts.kernel_total_ns, 1_010_500);
    assert_eq!((tables.counts.odd_rows, tables.complete), (2, false));
    let names: Vec<_> = tables.kernels.iter().map(|k| &*k.name).collect();
    assert_eq!(names, ["_Z1av", "_Z1bv"]);
}

/// Hazard (Records that make no sense): nsys tables with minima above maxima or impossible sums.
/// Promise: They are not taken as given.
#[test]
fn numbers_that_contradict_each_other_are_not_taken_as_given() {
    let rows = [
        ("100,10,10.0,10.0,9,12", true),
        ("100,10,10.0,10.0,13,12", false),
        ("100,10,10.0,10.0,11,12", false),
        ("100,10,10.0,10.0,5,9", false),
        ("100,9000000000000000000,0,0,0,12", false),
        ("18446744073709551615,18446744073709551615,1,1,18446744073709551615,1", false),
        ("0,3,0,0,0,0", true),
    ];
    for (row, usable) in rows {
        let text = format!("{HEAD}100.0,{row},0.0,_Z1av\n");
        let tables = load_text(&[("k_mangled.csv", &text)]);
        assert_eq!(tables.kernels.len(), usize::from(usable), "{row}");
        assert_eq!((tables.counts.odd_rows, tables.complete), (u64::from(!usable), usable));
        assert_eq!(tables.findings.is_empty(), usable, "{row}: {:?}", tables.findings);
    }
}

#[test]
fn a_kernel_in_two_tables_is_counted_once_from_the_better_one() {
    let plain = format!("{HEAD}100.0,10,2,5,5,5,5,0,\"void a<int>(int)\"\n");
    let mangled = format!("{HEAD}100.0,10,2,5,5,5,5,0,_Z1aIiEvi\n");
    let tables = load_text(&[("k_gpukernsum.csv", &plain), ("k_gpukernsum_mangled.csv", &mangled)]);
    assert_eq!((tables.counts.kernels, tables.nameless_calls()), (2, 0));
    assert!(tables.findings.is_empty(), "{:?}", tables.findings);
    let alone = load_text(&[("k_gpukernsum.csv", &plain)]);
    assert_eq!((alone.nameless_calls(), alone.totals().len()), (2, 0));
    assert!(alone.findings.iter().any(|f| f.remedy.contains(":mangled")), "{:?}", alone.findings);
}

#[test]
fn files_without_a_table_say_what_is_in_them() {
    let skipped = "SKIPPED: run.sqlite does not contain CUDA kernel data.\n";
    let tables = load_text(&[("a.csv", ""), ("b.csv", skipped), ("c.csv", "\u{0}\u{1}\"")]);
    assert_eq!((tables.complete, tables.findings.len()), (false, 3));
    assert!(tables.findings.iter().any(|f| f.why.contains("does not contain CUDA kernel data")));
    for gone in ["/no/such.csv", "/tmp"] {
        assert!(!load(&[gone.into()], &RangeNames::default()).complete);
    }
}

#[test]
fn the_default_domain_is_an_empty_name() {
    let text = "Time (%),Total Time (ns),Instances,Style,Range\n1,5,1,PushPop,:decode\n1,6,2,StartEnd,:decode\n1,7,1,PushPop,lib:copy\n1,8,1,PushPop,NCCL:ncclAllReduce\n";
    let tables = load_text(&[("n.csv", text)]);
    assert_eq!(tables.instances("decode", None), Some(3));
    assert_eq!(tables.instances("lib:copy", None), Some(1));
    assert_eq!(tables.instances("ncclAllReduce", Some("NCCL")), Some(1));
}

#[test]
fn tables_beyond_what_nsys_writes_are_refused_by_name() {
    let wide = format!("{},x\n", HEAD.trim_end()) + &"1,".repeat(MAX_COLUMNS) + "1\n";
    let row = "100.0,10,2,5,5,5,5,0,_Z1aIiEvi\n";
    let long = format!("{HEAD}{}", row.repeat(MAX_ROWS));
    let name = "k".repeat(1 << 20);
    let fat = format!("{HEAD}{}", format!("1,10,2,5,5,5,5,0,{name}\n").repeat(64));
    let endless = format!("{HEAD}1,10,2,5,5,5,5,0,\"{}", "k".repeat(17 << 20));
    for (text, why) in [
        (wide, "201 cells"),
        (long, "more than 200000 rows"),
        (fat, "64 MiB"),
        (endless, "a record has more than 16 MiB"),
    ] {
        let tables = load_text(&[("k_mangled.csv", &text)]);
        let [finding] = &tables.findings[..] else { panic!("{why}: {:?}", tables.findings) };
        assert!(finding.what.contains("k_mangled.csv") && finding.why.contains(why), "{finding}");
        assert!(!tables.complete && tables.kernels.is_empty() && !finding.remedy.is_empty());
    }
}

#[test]
fn rows_beyond_the_room_are_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("k_mangled.csv");
    let text = format!("{HEAD}{}", "100.0,10,2,5,5,5,5,0,_Z1aIiEvi\n".repeat(3));
    std::fs::write(&path, text).expect("file");
    let whole = Room::default();
    assert_eq!((whole.rows, whole.bytes), (200_000, 64 << 20));
    let small = [Room { rows: 3, ..whole }, Room { bytes: 600, ..whole }];
    assert!(read(&path, Room { rows: 4, ..whole }).is_ok());
    for why in small.map(|room| read(&path, room).expect_err("too much").to_string()) {
        assert!(why.contains("more than 200000 rows, or they take more than 64 MiB"), "{why}");
    }
}

#[test]
fn a_mark_of_the_byte_order_is_no_part_of_the_first_name() {
    let text = format!("\u{feff}{HEAD}100.0,10,2,5,5,5,5,0,_Z1a\n");
    let tables = load_text(&[("k_mangled.csv", &text)]);
    assert_eq!((tables.kernels.len(), tables.complete), (1, true), "{:?}", tables.findings);
}

#[test]
fn what_a_program_printed_may_stand_in_front_of_the_first_table() {
    let table = format!("{HEAD}100.0,10,2,5,5,5,5,0,_Z1a\n");
    for lines in [0, 20, 900] {
        let printed = "Processing [run.sqlite] with [cuda_gpu_kern_sum.py]...\n".repeat(lines);
        for delimiter in [",", ";", "\t"] {
            let text = printed.clone() + &table.replace(',', delimiter);
            let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            for bytes in [text.into_bytes(), wide] {
                let tables = load_text(&[("k_mangled.csv", &bytes)]);
                assert_eq!((tables.kernels.len(), tables.complete), (1, true), "{delimiter:?}");
            }
        }
    }
}

#[test]
fn a_name_that_looks_like_a_number_says_nothing_about_numbers() {
    let head = "Time (%),Total Time (ns),Instances,Style,Range\n";
    let text = format!("{head}60.0,6,1,PushPop,\"0,5\"\n40.0,4,1,PushPop,\"1.234.567\"\n");
    let tables = load_text(&[("n.csv", &text)]);
    assert_eq!(tables.instances("0,5", None), Some(1), "{:?}", tables.findings);
    let kernel = format!("{HEAD}60.0,10,2,5,5,5,5,0,\"0,5\"\n");
    assert_eq!(load_text(&[("k.csv", &kernel)]).counts.kernels, 2);
}

#[test]
fn empty_cells_take_room_and_those_beyond_the_header_none() {
    let row = vec![String::new(); MAX_COLUMNS];
    let kept = |columns| {
        let mut room = Room::default();
        (0..20_000).take_while(|_| room.row(row.clone(), columns).is_ok()).count()
    };
    let room = MAX_COLUMNS * size_of::<String>();
    assert_eq!((kept(MAX_COLUMNS), kept(9)), (MAX_ROW_BYTES / room, 20_000));
}
