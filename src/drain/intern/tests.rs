//! Numbers of names, shapes, queues and paths: dense, defined once, bounded.

use super::*;

#[test]
fn a_value_is_defined_once_and_keeps_its_number() {
    let (mut interner, mut sink) = (Interner::default(), Vec::new());
    let a = interner.name(b"a", &mut sink);
    let b = interner.name(b"b", &mut sink);
    assert_eq!((a, b), (1, 2));
    assert_eq!(interner.name(b"a", &mut sink), a);
    assert_eq!(interner.text(b), b"b");
    assert_eq!(interner.text(0), b"");
    assert_eq!(sink.len(), 2);
}

#[test]
fn whatever_comes_the_tables_stay_bounded_and_what_is_refused_is_counted() {
    let (mut interner, mut sink) = (Interner::default(), Vec::new());
    let mut last = 0;
    for i in 0..2 * MAX_NAMES as u32 {
        last = interner.name(&i.to_le_bytes(), &mut sink);
        interner.shape(Shape { grid: [i, 1, 1], ..Shape::default() }, &mut sink);
        interner.queue(Queue { stream: i, ..Queue::default() }, &mut sink);
        let parent = interner.path(NONE, 1, NONE, &mut sink);
        interner.path(parent, i + 2, NONE, &mut sink);
    }
    assert_eq!(interner.text(last), MORE_NAMES);
    assert!(interner.texts.len() <= MAX_NAMES + 1);
    assert!(interner.path_nodes.len() <= MAX_PATHS);
    assert!(interner.shapes.known.len() <= MAX_SHAPES);
    assert!(interner.queues.known.len() <= MAX_QUEUES);
    assert!(interner.take_refused() >= 2 * MAX_NAMES as u64 - 2);
    let beyond = interner.path(NONE, 5, 5, &mut sink);
    assert_eq!(interner.path(NONE, 5, 6, &mut sink), beyond);
    assert_eq!(interner.path_nodes.len(), MAX_PATHS + 1);
    // A shape that was forgotten is defined anew, under a number of its own.
    let again = interner.shape(Shape { grid: [0, 1, 1], ..Shape::default() }, &mut sink);
    assert_eq!(again, 2 * MAX_NAMES as u32 + 1);
}

#[test]
fn an_address_that_is_reused_for_another_kernel_gets_the_new_name() {
    let (mut interner, mut sink) = (Interner::default(), Vec::new());
    let first = interner.name_at(0x1000, b"first", &mut sink);
    assert_eq!(interner.name_at(0x1000, b"first", &mut sink), first);
    let second = interner.name_at(0x1000, b"second", &mut sink);
    assert_ne!(first, second);
    assert_eq!(interner.text(second), b"second");
}

#[test]
fn what_is_lost_is_defined_again_before_it_is_used_again() {
    let (mut interner, mut sink) = (Interner::default(), Vec::new());
    let names: Vec<u32> =
        [b"outer", b"inner"].iter().map(|name| interner.name(*name, &mut sink)).collect();
    let domain = interner.name(b"domain", &mut sink);
    let outer = interner.path(NONE, names[0], domain, &mut sink);
    let inner = interner.path(outer, names[1], domain, &mut sink);
    let kernel = interner.name_at(0x1000, b"kernel", &mut sink);
    let queue = Queue { stream: 7, ..Queue::default() };
    let shape = Shape { name: kernel, ..Shape::default() };
    interner.shape(shape, &mut sink);
    interner.queue(queue, &mut sink);
    let before = std::mem::take(&mut sink);
    interner.define_again();
    assert_eq!(interner.path(outer, names[1], domain, &mut sink), inner);
    assert_eq!(interner.name_at(0x1000, b"kernel", &mut sink), kernel);
    interner.shape(shape, &mut sink);
    interner.queue(queue, &mut sink);
    // Each once, and before what needs it.
    let id = |wanted: &Record| sink.iter().position(|record| record == wanted);
    let order: Vec<usize> = before[..6].iter().filter_map(id).collect();
    assert_eq!((order.len(), sink.len()), (6, before.len()));
    assert!(id(&before[3]) < id(&before[4]) && id(&before[0]) < id(&before[3]));
    let written = sink.len();
    interner.path(outer, names[1], domain, &mut sink);
    interner.name_at(0x1000, b"kernel", &mut sink);
    assert_eq!(sink.len(), written);
}

#[test]
fn of_a_long_path_both_ends_are_told_in_a_time_that_does_not_grow_with_it() {
    let (mut interner, mut sink) = (Interner::default(), Vec::new());
    let outermost = interner.name(b"outermost", &mut sink);
    let mut path = interner.path(NONE, outermost, NONE, &mut sink);
    for depth in 0..MAX_PATHS as u32 - 1 {
        let name = interner.name(format!("{depth:0100}").as_bytes(), &mut sink);
        path = interner.path(path, name, NONE, &mut sink);
    }
    let mut bytes = 0;
    for path in 1..=path {
        bytes += interner.path_text(path).len();
    }
    assert!(bytes <= MAX_PATHS * (2 * END_BYTES + 3), "{bytes}");
    let text = String::from_utf8_lossy(&interner.path_text(path)).into_owned();
    assert!(text.starts_with("outermost/000"), "{text}");
    assert!(text.ends_with(&format!("/{:0100}", MAX_PATHS - 2)), "{text}");
}

#[test]
fn paths_form_a_tree() {
    let (mut interner, mut sink) = (Interner::default(), Vec::new());
    let decode = interner.name(b"decode", &mut sink);
    let step = interner.name(b"step", &mut sink);
    let outer = interner.path(NONE, decode, NONE, &mut sink);
    let inner = interner.path(outer, step, NONE, &mut sink);
    assert_eq!(interner.path_text(inner), b"decode/step");
    assert_eq!(interner.path_text(0), b"");
}
