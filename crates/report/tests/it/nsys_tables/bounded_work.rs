//! Exports that would take far more work than a file of their size is worth.

use std::path::Path;
use std::time::{Duration, Instant};

use super::fixture::{SCHEMA, export};
use rusqlite::Connection;
use stage2_read::nsys::{Tables, sqlite};

/// An export of so many kernels, each with a name of its own, in a table of `names` strings without a key.
fn without_key(names: u32, kernels: u32) -> Tables {
    let folder = tempfile::tempdir().expect("folder");
    let dir: &Path = folder.path();
    let schema = SCHEMA.replace("id INTEGER NOT NULL PRIMARY KEY", "id INTEGER NOT NULL");
    assert_ne!(schema, SCHEMA);
    let numbers = |count: u32| {
        format!("WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n LIMIT {count})")
    };
    let rows = format!(
        "INSERT INTO StringIds {} SELECT i, '_Z' || i || 'v' FROM n;
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL {}
             SELECT i, i + 5, 0, i, 1 << 24, 2, 3, i, 1, 2, 3, 64, 1, 1 FROM n;",
        numbers(names),
        numbers(kernels),
    );
    let path = export(dir, &schema, &rows);
    sqlite::load(&path, &Default::default()).expect("an export")
}

#[test]
fn names_without_a_key_are_all_found_within_the_budget() {
    // One search through the table for each name would take 80 million steps for a file of 2 MB.
    let tables = without_key(20_000, 20_000);
    assert!(!tables.findings.iter().any(|f| f.what.contains("StringIds")), "{:?}", tables.findings);
    assert_eq!((tables.kernels.len(), tables.nameless_calls()), (20_000, 0));
    assert!(tables.kernels.iter().all(|kernel| kernel.name.starts_with("_Z")));
}

/// Inverse of the number that a well-known fast hash multiplies with: multiples of it fall into one
/// place of its tables, where each search goes through all of them.
const INVERSE: u64 = inverse_of(0xf135_7aea_2e62_a9c5);

/// By Newton's method, modulo 2^64.
const fn inverse_of(odd: u64) -> u64 {
    let (mut found, mut rounds) = (odd, 0);
    while rounds < 6 {
        found = found.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(found)));
        rounds += 1;
    }
    found
}

/// Hazard (Hostile files): An nsys export whose numbers were chosen to collide in a hash table.
/// Promise: It takes no longer than others.
#[test]
fn numbers_that_were_chosen_to_collide_take_no_longer() {
    const NAMES: u64 = 100_000;
    assert_eq!(INVERSE.wrapping_mul(0xf135_7aea_2e62_a9c5), 1);
    let folder = tempfile::tempdir().expect("folder");
    let schema = SCHEMA.replace("id INTEGER NOT NULL PRIMARY KEY", "id INTEGER NOT NULL");
    let id = |i: u64| i.wrapping_mul(INVERSE).cast_signed();
    let kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 1, 0, 2, 3";
    let path = export(folder.path(), &schema, &format!("{kernel}, {}, 1, 2, 3, 64, 1, 1);", id(9)));
    let mut db = Connection::open(&path).expect("the file");
    let rows = db.transaction().expect("a transaction");
    let mut insert = rows.prepare("INSERT INTO StringIds VALUES (?1, '_Z9v')").expect("a row");
    for i in 1..=NAMES {
        insert.execute([id(i)]).expect("a row");
    }
    drop(insert);
    rows.commit().expect("rows");
    let begun = Instant::now();
    let tables = sqlite::load(&path, &Default::default()).expect("an export");
    assert_eq!((&*tables.kernels[0].name, tables.kernels.len()), ("_Z9v", 1));
    // With such a hash it takes more than a minute.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

const PAGE: usize = 512;

/// Puts a page of the tree of a table at `page` (from 1): all of its children are `child`.
fn write_inner_page(file: &mut Vec<u8>, page: usize, child: u32, cells: u16) {
    let start = (page - 1) * PAGE;
    file.resize(file.len().max(start + PAGE), 0);
    let content = PAGE - 6 * usize::from(cells);
    let place = &mut file[start..start + PAGE];
    place.fill(0);
    place[0] = 5;
    place[3..5].copy_from_slice(&cells.to_be_bytes());
    place[5..7].copy_from_slice(&(content as u16).to_be_bytes());
    place[8..12].copy_from_slice(&child.to_be_bytes());
    for cell in 0..usize::from(cells) {
        let at = content + 6 * cell;
        place[12 + 2 * cell..14 + 2 * cell].copy_from_slice(&(at as u16).to_be_bytes());
        place[at..at + 4].copy_from_slice(&child.to_be_bytes());
        // A number of a row of two bytes, the same in each cell: nobody checks their order.
        place[at + 4..at + 6].copy_from_slice(&[0x81, 0]);
    }
}

/// An export of 20 KB whose table of kernels has billions of rows: its pages share their children.
fn shared_pages(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("shared.sqlite");
    let database = Connection::open(&path).expect("file");
    database
        .execute_batch(&format!(
            "PRAGMA page_size = {PAGE}; {SCHEMA}
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9)
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
                 SELECT i, i + 5, 0, i, 1 << 24, 2, 3, 1, 1, 2, 3, 64, 1, 1 FROM n;"
        ))
        .expect("rows");
    let root: usize = database
        .query_row(
            "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'",
            [],
            |row| row.get(0),
        )
        .expect("the table");
    drop(database);
    let mut file = std::fs::read(&path).expect("the file");
    let leaf = file[(root - 1) * PAGE..root * PAGE].to_vec();
    assert_eq!(leaf[0], 13, "the rows fill one page");
    let first = file.len() / PAGE + 1;
    file.extend(&leaf);
    for level in 1..=4 {
        write_inner_page(&mut file, first + level, (first + level - 1) as u32, 60);
    }
    write_inner_page(&mut file, root, (first + 4) as u32, 60);
    let pages = (file.len() / PAGE) as u32;
    file[28..32].copy_from_slice(&pages.to_be_bytes());
    std::fs::write(&path, &file).expect("the file");
    path
}

#[test]
fn rows_that_share_their_pages_end_with_what_the_file_can_hold() {
    let dir = tempfile::tempdir().expect("folder");
    let path = shared_pages(dir.path());
    let length = std::fs::metadata(&path).expect("the file").len();
    assert!(length < 40_000, "{length}");
    let tables = sqlite::load(&path, &Default::default()).expect("an export");
    assert!(!tables.complete);
    let said = tables.findings.iter().any(|f| f.why.contains("share their bytes"));
    assert!(said, "{:?}", tables.findings);
    // What came before is kept: as many rows as fit into a megabyte.
    assert!((100_000..400_000).contains(&tables.counts.kernels), "{}", tables.counts.kernels);
}
