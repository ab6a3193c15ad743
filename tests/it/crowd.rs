//! Many launching threads: CUPTI keeps a buffer for each, and nothing is lost within the bound.

use crate::common::{Guest, Left, counts};
use stage2_contract::trace::Losses;

fn guest(hazard: &str, threads: usize) -> Guest {
    Guest::new(hazard).env("STAGE2_TEST_THREADS", threads.to_string())
}

fn exact(left: &Left, expected: &[(&str, usize)]) {
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.losses(), Losses::default());
    assert_eq!(trace.kernels(), counts(expected));
}

/// Hazard (Threads, stacks and locks): 1,000 threads launch at the same time.
/// Promise: Nothing is lost, and the memory has its bound.
#[test]
fn up_to_a_thousand_launching_threads_lose_nothing_and_the_memory_has_its_bound() {
    for threads in [64, 256, 1000] {
        let kib = |left: &Left| left.stdout().trim().parse::<u64>().expect("KiB");
        let alone = guest("crowd", threads).without("LD_PRELOAD").run();
        let left = guest("crowd", threads).run();
        exact(&left, &[("crowd", 40 * threads), ("(outside)", threads)]);
        let (alone, traced) = (kib(&alone), kib(&left));
        println!("{threads} threads: {traced} KiB, alone {alone} KiB");
        // The buffers' 256 MiB, and what the collector needs besides.
        assert!(traced < alone + (256 << 10) + 64_000, "{threads}: {traced} against {alone} KiB");
    }
}

#[test]
fn where_all_threads_share_a_buffer_a_thousand_lose_nothing_either() {
    let left = guest("crowd", 1000).env("STAGE2_SIM_CUPTI_VERSION", "12.4").run();
    exact(&left, &[("crowd", 40_000), ("(outside)", 1000)]);
}

/// Hazard (Resources): More records than the bound on buffers holds.
/// Promise: The bound holds, and the loss is counted.
#[test]
fn a_bound_in_bytes_holds_and_what_it_costs_is_counted() {
    let left = guest("crowd", 64).env("STAGE2_BUFFERS", "32M").run();
    exact(&left, &[("crowd", 2560), ("(outside)", 64)]);

    let left = guest("crowd", 256).env("STAGE2_BUFFERS", "1M").run();
    let trace = left.expect_quiet(0).trace();
    let lost = trace.losses();
    let seen: usize = trace.kernels().values().sum();
    assert!(lost.buffers_refused > 0, "16 buffers for 256 threads");
    assert_eq!(seen as u64 + lost.cupti_dropped, 41 * 256, "{lost:?}");
}

/// Hazard (Versions, libraries and rivals): A CUPTI that crashes on a refused buffer (before 12.9
///  update 1).
/// Promise: It always gets one.
#[test]
fn a_cupti_that_does_not_survive_a_refusal_gets_buffers_beyond_the_bound() {
    let left = guest("crowd", 256)
        .env("STAGE2_SIM_CUPTI_VERSION", "12.8")
        .env("STAGE2_BUFFERS", "1M") // 16 buffers.
        .run();
    exact(&left, &[("crowd", 10_240), ("(outside)", 256)]);
}

/// Hazard (Threads, stacks and locks): Threads that end keep buffers.
/// Promise: These come back before the pool is empty.
#[test]
fn buffers_of_threads_that_ended_come_back_before_the_pool_is_empty() {
    let left = guest("come_and_go", 3000)
        .env("STAGE2_BUFFERS", "64M") // 700 buffers.
        .env("STAGE2_FLUSH_MS", "3600000")
        .run();
    exact(&left, &[("short", 12_000)]);
}

/// Hazard (Ends of life): The last flush brings more buffers than wait.
/// Promise: Every buffer is read.
#[test]
fn the_last_flush_takes_in_every_buffer_however_many_there_are() {
    // More than are taken in at once, and too few for an early flush.
    let left = guest("come_and_go", 1500).env("STAGE2_FLUSH_MS", "3600000").run();
    exact(&left, &[("short", 6000)]);
}

/// Hazard (Resources): Less address space than the pool wants.
/// Promise: The pool is smaller.
#[test]
fn a_process_that_may_take_less_address_space_gets_a_smaller_pool() {
    let left = Guest::new("little_address_space").env("STAGE2_LOG", "info").run();
    let said = left.expect_said(0);
    assert!(said.contains(" 131072 KiB of address space"), "{said}");
    assert_eq!(left.trace().kernel_count(), 207);
}
