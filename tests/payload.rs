//! NVTX's payload extension: every slot, every pair of an opening and a closing function, fields of
//! ranges as NCCL gives them, and payloads that lie.

#[allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "it/common/mod.rs"]
mod common;
#[path = "guests/nvtx.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;

use std::collections::{BTreeMap, HashMap};

use common::{Guest, TraceFile, counts};
use cupti_sys::nvtx as sys;
use nvtx::PAYLOAD_SLOTS;
use stage2::entry::inject::InitializeInjectionNvtxExtension;
use stage2_contract::trace::{FieldValue, Losses, RANGE_OUTSIDE, Record};

/// The fields of every range that has some, with the name of the range and in order.
fn fields(trace: &TraceFile) -> Vec<(String, Vec<(String, String)>)> {
    let paths = trace.range_paths();
    let names: HashMap<u32, String> = trace
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Name { id, bytes } => Some((*id, String::from_utf8_lossy(bytes).into_owned())),
            _ => None,
        })
        .collect();
    let mut open = std::collections::HashSet::new();
    let mut found = Vec::new();
    for record in &trace.records {
        match record {
            Record::RangeOpen(range) => drop(open.insert(range.range)),
            Record::RangeClose { range, .. } => drop(open.remove(range)),
            Record::RangeFields { range, fields } => {
                assert!(open.contains(range), "fields stand between opening and closing");
                let value = |value: &FieldValue| match value {
                    FieldValue::U64(value) => format!("{value}u"),
                    FieldValue::I64(value) => format!("{value}i"),
                    FieldValue::F64(value) => format!("{value}f"),
                    FieldValue::Name(name) => names[name].clone(),
                };
                let fields =
                    fields.iter().map(|field| (names[&field.name].clone(), value(&field.value)));
                found.push((paths[range].clone(), fields.collect()));
            }
            _ => {}
        }
    }
    found
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn nccls_ranges_have_the_fields_that_nccl_gives_them() {
    let left = Guest::new("nccl").run();
    let trace = left.expect_quiet(0).trace();
    let init = named(&[
        ("NCCL communicator ID", "65261u"),
        ("No. of ranks", "2i"),
        ("Rank", "1i"),
        ("CUDA device", "-1i"),
    ]);
    let mut expected = vec![("ncclCommInitRank".to_owned(), init)];
    for (bytes, operation) in [("1024u", "Sum"), ("2048u", "Product"), ("4096u", "Max")] {
        let reduce = named(&[
            ("NCCL communicator ID", "65261u"),
            ("Message size [bytes]", bytes),
            ("Reduction operation", operation),
        ]);
        expected.push(("decode/ncclAllReduce".to_owned(), reduce));
    }
    assert_eq!(fields(trace), expected);
    assert_eq!(trace.kernels(), counts(&[("decode", 12), ("decode/ncclAllReduce", 3)]));
    assert_eq!(trace.losses(), Losses::default());
    assert_eq!(trace.meta("ranges.fields_left_out"), None);
}

#[test]
fn a_range_that_is_popped_through_the_extension_ends_there() {
    let left = Guest::new("popped_elsewhere").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.kernels(), counts(&[("decode", 15), ("ncclCommInitRank", 2)]));
    let decodes = trace.records.iter().filter_map(|record| match record {
        Record::RangeOpen(open) if trace.range_paths()[&open.range] == "decode" => {
            Some(open.parent)
        }
        _ => None,
    });
    assert_eq!(decodes.collect::<Vec<_>>(), [RANGE_OUTSIDE; 3]);
    assert_eq!(trace.losses(), Losses::default());
}

#[test]
fn whatever_opened_a_range_whatever_closes_it() {
    let left = Guest::new("every_pair").run();
    let trace = left.expect_quiet(0).trace();
    let stdout = left.stdout();
    let names: Vec<&str> = stdout.lines().collect();
    assert_eq!(names.len(), 2 * 5 * 3);
    let mut expected: BTreeMap<String, usize> =
        names.iter().map(|name| ((*name).to_owned(), 1)).collect();
    expected.insert("(outside)".to_owned(), names.len());
    assert_eq!(trace.kernels(), expected);
    assert_eq!(trace.losses(), Losses::default());
}

/// Hazard (Hostile guests): NVTX payloads that lie about their size or hold wild pointers.
/// Promise: They are survived and counted, and no pointer is followed.
#[test]
fn payloads_that_lie_are_survived_and_counted_and_right_ones_are_read() {
    let left = Guest::new("hostile_payloads").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.kernels(), counts(&[("right", 3), ("after", 2)]));
    let said = fields(trace);
    assert_eq!(said.last(), Some(&("right".to_owned(), named(&[("there", "7i")]))));
    // Of each payload at most one field is there to be had, and eight payloads are looked at.
    assert!(said.iter().all(|(_, fields)| fields.len() <= 8), "{said:?}");
    let left_out: u64 = trace.meta("ranges.fields_left_out").expect("counted").parse().unwrap();
    assert!(left_out > 100, "{left_out}");
    let lost = trace.losses();
    assert_eq!(lost, Losses { unbalanced: 1, ..Losses::default() });
}

#[test]
fn attributes_of_payloads_hold_and_fields_of_the_pop_come_last() {
    let left = Guest::new("overridden").run();
    let trace = left.expect_quiet(0).trace();
    let name = "from the payload".to_owned();
    let expected =
        [(name.clone(), named(&[("tokens", "100i")])), (name, named(&[("tokens", "128i")]))];
    assert_eq!(fields(trace), expected);
    let category = trace.records.iter().find_map(|record| match record {
        Record::RangeOpen(open) => Some(open.category),
        _ => None,
    });
    assert_eq!(category, Some(9));
}

/// In a slot that nobody wrote to: no function, and not what NVTX takes for an empty slot.
const UNTOUCHED: isize = 0x5107;

/// Has the collector fill in one segment of `slots` for a module.
fn filled(module: u16, slots: usize) -> (i32, [isize; PAYLOAD_SLOTS]) {
    let mut table = [UNTOUCHED; PAYLOAD_SLOTS];
    let mut segment = sys::nvtxExtModuleSegment_t {
        segmentId: 0,
        slotCount: slots,
        functionSlots: table.as_mut_ptr(),
    };
    let mut info = sys::nvtxExtModuleInfo_t {
        nvtxVer: 3,
        structSize: size_of::<sys::nvtxExtModuleInfo_t>() as u16,
        moduleId: module,
        compatId: 0,
        segmentsCount: 1,
        segments: &raw mut segment,
        getExportFunction: None,
        extInfo: std::ptr::null(),
    };
    // SAFETY: the struct and its slots are there, and nobody else uses them.
    let answer = unsafe { InitializeInjectionNvtxExtension(&raw mut info) };
    (answer, table)
}

#[test]
fn of_every_slot_of_the_extensions_ours_are_filled_and_no_other_and_the_answer_is_yes() {
    const OURS: usize = 8;
    let (answer, table) = filled(2, PAYLOAD_SLOTS);
    assert_eq!(answer, 1);
    assert!(table[..OURS].iter().all(|&slot| slot != UNTOUCHED), "{table:x?}");
    assert!(table[OURS..].iter().all(|&slot| slot == UNTOUCHED), "{table:x?}");
    // A client with fewer slots.
    let (answer, table) = filled(2, 5);
    assert!(
        answer == 1 && table[4] != UNTOUCHED && table[5..].iter().all(|&slot| slot == UNTOUCHED)
    );
    // Memory and counters, and one to come.
    for module in [1, 4, 77] {
        assert_eq!(filled(module, PAYLOAD_SLOTS), (1, [UNTOUCHED; PAYLOAD_SLOTS]));
    }
    // SAFETY: null is allowed.
    assert_eq!(unsafe { InitializeInjectionNvtxExtension(std::ptr::null_mut()) }, 1);
}

#[test]
fn of_every_slot_of_core_those_of_ranges_marks_domains_and_strings_are_filled() {
    // What is there is there before anything was started: this program is no guest.
    let client = nvtx::Nvtx::attached_to(attach_only);
    let filled = |second| -> Vec<u32> {
        (1..16).filter(|&id| client.function::<usize>(second, id).is_some()).collect()
    };
    assert_eq!(filled(false), (1..=11).collect::<Vec<_>>());
    assert_eq!(filled(true), [1, 2, 3, 4, 5, 10, 11, 12, 13]);
}

unsafe extern "C" fn attach_only(
    get: Option<unsafe extern "C" fn(u32) -> *const std::ffi::c_void>,
) -> i32 {
    // SAFETY: the guest's client passes what NVTX passes.
    unsafe { stage2::guest::nvtx::attach(get) }.into()
}
