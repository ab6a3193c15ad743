//! A SQLite file -> how many tables and indexes it says to have, counted without SQLite.
//!
//! SQLite reads all of them before its first statement, in a time that grows with the square of their number
//! and that nothing interrupts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Far more than any export has: some versions of nsys make a hundred.
pub(super) const MOST_ENTRIES: u64 = 10_000;
/// Pages of the tree that are looked at: enough for as many entries with long statements.
const MOST_PAGES: usize = 20_000;
/// Where the first page has its part of the tree, behind the header of the file.
const HEADER_BYTES: u64 = 100;
const LEAF: u8 = 13;
const INNER: u8 = 5;

/// The number of entries, or of those that were counted until there were more than [`MOST_ENTRIES`]. What is
/// no tree counts for nothing: SQLite tells what is wrong with it.
///
/// # Errors
/// The file cannot be read.
pub(super) fn entries(file: &File, page_bytes: u64) -> io::Result<u64> {
    let (mut found, mut waiting) = (0, vec![1_u64]);
    for _ in 0..MOST_PAGES {
        let Some(page) = waiting.pop().filter(|_| found <= MOST_ENTRIES) else { return Ok(found) };
        let begin = (page - 1).saturating_mul(page_bytes);
        let head = begin.saturating_add(if page == 1 { HEADER_BYTES } else { 0 });
        let Some([kind, _, _, high, low]) = bytes(file, head)? else { continue };
        let cells = u16::from_be_bytes([high, low]);
        match kind {
            LEAF => found += u64::from(cells),
            INNER => {
                let last = bytes(file, head.saturating_add(8))?.map(u32::from_be_bytes);
                waiting.extend(last.filter(|page| *page > 0).map(u64::from));
                for cell in 0..u64::from(cells) {
                    let Some(at) = bytes(file, head.saturating_add(12 + 2 * cell))? else { break };
                    let at = begin.saturating_add(u64::from(u16::from_be_bytes(at)));
                    let child = bytes(file, at)?.map(u32::from_be_bytes);
                    waiting.extend(child.filter(|page| *page > 0).map(u64::from));
                    if waiting.len() > MOST_PAGES {
                        return Ok(MOST_ENTRIES + 1);
                    }
                }
            }
            _ => {}
        }
    }
    // More pages than there can be, or pages that lead to each other.
    Ok(MOST_ENTRIES + 1)
}

/// So many bytes at a place; nothing behind the end.
fn bytes<const N: usize>(file: &File, at: u64) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        // Beyond what an offset can be.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::path::Path;

    fn made(folder: &Path, sql: &str) -> File {
        let path = folder.join("made.sqlite");
        let _ = std::fs::remove_file(&path);
        Connection::open(&path).expect("a file").execute_batch(sql).expect("statements");
        File::open(path).expect("a file")
    }

    /// Hazard (Hostile files): An nsys export with hundreds of thousands of tables, which SQLite
    ///  reads first and without an end to wait for.
    /// Promise: It is refused at once.
    #[test]
    fn entries_are_as_many_as_sqlite_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        for page_bytes in [512, 4096] {
            for tables in [1, 3, 400] {
                let mut sql = format!("PRAGMA page_size = {page_bytes};");
                for table in 0..tables {
                    sql += &format!("CREATE TABLE a_table_of_some_name_{table}(a, b UNIQUE);");
                }
                let file = made(folder.path(), &sql);
                assert_eq!(entries(&file, page_bytes).expect("read"), 2 * tables, "{page_bytes}");
            }
        }
    }

    #[test]
    fn pages_that_lead_to_each_other_and_no_pages_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        let mut page = vec![0; 512];
        // An interior page whose 100 cells and rightmost child all point back to the page itself.
        page[100] = INNER;
        page[103..105].copy_from_slice(&100_u16.to_be_bytes());
        page[108..112].copy_from_slice(&1_u32.to_be_bytes());
        page[112..312].copy_from_slice(&[1_u8, 144].repeat(100));
        page[400..404].copy_from_slice(&1_u32.to_be_bytes());
        std::fs::write(&path, &page).expect("a file");
        assert!(entries(&File::open(&path).expect("a file"), 512).expect("read") > MOST_ENTRIES);
        for bytes in [&[][..], &[13; 600], &[5; 600], &[0; 50]] {
            std::fs::write(&path, bytes).expect("a file");
            entries(&File::open(&path).expect("a file"), 65_536).expect("read");
        }
    }
}
