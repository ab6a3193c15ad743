//! Many names of ranges that differ in a number or an identifier only -> one name for all of them.
//!
//! `request-16e3d6d0...`, once each, has no warm time, no percentile and no share, and a hundred thousand
//! of them fill every table. `layer.0` to `layer.79` are different layers, and stay apart. What is joined
//! holds for all processes of a job, and every reader of a file joins the same, so that the indices of
//! paths are the same for all.

use std::collections::{BTreeSet, HashMap, HashSet};

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::text::{Pattern, pattern};

use super::ProcessCapture;
use super::paths::{Names, PathIndex, UNDEFINED};

/// So many alike names stay apart: outermost, within one range, and where a UUID or hash differs.
pub const APART_OUTERMOST: usize = 32;
const APART_WITHIN: usize = 1_024;
const APART_IDENTIFIERS: usize = 8;

/// Patterns whose names are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    outermost: BTreeSet<Vec<u8>>,
    within: BTreeSet<Vec<u8>>,
}

impl Joined {
    fn of(&self, is_outermost: bool) -> &BTreeSet<Vec<u8>> {
        if is_outermost { &self.outermost } else { &self.within }
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.outermost.extend(other.outermost.iter().cloned());
        self.within.extend(other.within.iter().cloned());
    }
}

/// How many alike names of a pattern stay apart.
fn apart(is_outermost: bool, pattern: &Pattern) -> usize {
    match is_outermost {
        _ if pattern.has_identifier => APART_IDENTIFIERS,
        true => APART_OUTERMOST,
        false => APART_WITHIN,
    }
}

/// Where names are alike: the range around them, their domain, and their pattern.
type Place = (Option<PathIndex>, Option<u32>, Vec<u8>);

/// Names of outermost ranges, by their pattern and domain.
type Outermost<'p> = HashMap<(Vec<u8>, Option<&'p [u8]>), HashSet<&'p [u8]>>;

/// Names of the ranges of a file.
#[derive(Debug, Default)]
pub struct Alike {
    joined: Joined,
    /// Names of each pattern that are not joined, by the range around them and their domain; nothing: they
    /// are not counted.
    apart: Option<FxHashMap<Place, FxHashSet<u32>>>,
    /// Patterns of which more were found than stay apart.
    many: Joined,
}

impl Alike {
    /// Joins those of `joined`.
    pub fn of(joined: Joined) -> Self {
        Self { joined, ..Self::default() }
    }

    /// Joins these names, and counts the others, to find those of which there are many.
    pub fn counting(joined: Joined) -> Self {
        Self { joined, apart: Some(FxHashMap::default()), ..Self::default() }
    }

    /// What is joined, and of what more was found than stays apart.
    pub fn into_parts(self) -> (Joined, Joined) {
        (self.joined, self.many)
    }

    /// Whether there are patterns of which more names were found than stay apart.
    pub fn has_many(&self) -> bool {
        self.many != Joined::default()
    }

    /// The joined name that replaces `name` in a path about to be defined; `None` if the name is not joined.
    /// `around` is the user's range that encloses the path.
    pub fn stand_in(
        &mut self,
        names: &mut Names,
        around: Option<PathIndex>,
        name: u32,
        domain: Option<u32>,
    ) -> Option<u32> {
        if self.apart.is_none() && self.joined == Joined::default() {
            return None;
        }
        let is_outermost = around.is_none();
        let pattern = pattern(names.get(name)?)?;
        if self.joined.of(is_outermost).contains(&pattern.text) {
            return Some(names.add(pattern.text));
        }
        if self.many.of(is_outermost).contains(&pattern.text) {
            return None;
        }
        let most = apart(is_outermost, &pattern);
        let alike = self.apart.as_mut()?.entry((around, domain, pattern.text.clone())).or_default();
        alike.insert(name);
        if alike.len() > most {
            let many = &mut self.many;
            let many = if is_outermost { &mut many.outermost } else { &mut many.within };
            many.insert(pattern.text);
        }
        None
    }
}

/// What has to be joined in all processes: what one of them joined, and too many outermost ranges.
pub fn of_job<'p>(processes: impl Iterator<Item = &'p ProcessCapture> + Clone) -> Joined {
    let mut joined = Joined::default();
    let mut alike = Outermost::new();
    for process in processes {
        joined.extend(&process.joined);
        let bytes = |name: Option<u32>| process.names.get(name? as usize).map(Vec::as_slice);
        for (_, name, domain) in user_names(process).filter(|(is_outermost, ..)| *is_outermost) {
            let Some(name) = bytes(Some(name)) else { continue };
            let Some(pattern) = pattern(name) else { continue };
            let names = alike.entry((pattern.text.clone(), bytes(domain))).or_default();
            names.insert(name);
            if names.len() > apart(true, &pattern) {
                joined.outermost.insert(pattern.text);
            }
        }
    }
    joined
}

/// Whether `process` has a name that `joined` joins.
pub fn is_apart(process: &ProcessCapture, joined: &Joined) -> bool {
    if process.joined == *joined {
        return false;
    }
    user_names(process).any(|(is_outermost, name, _)| {
        let pattern = process.names.get(name as usize).and_then(|name| pattern(name));
        pattern.is_some_and(|pattern| joined.of(is_outermost).contains(&pattern.text))
    })
}

/// Names of the ranges of the program: whether each is outermost, its name and its domain.
fn user_names(process: &ProcessCapture) -> impl Iterator<Item = (bool, u32, Option<u32>)> {
    (0..).zip(&process.paths).filter_map(|(index, node)| {
        let of_user = node.user == Some(index) && index > UNDEFINED;
        Some((node.parent.is_none(), node.name?, node.domain)).filter(|_| of_user)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path as FilePath;

    use stage2_contract::trace::{NONE, Path};

    use crate::trace::folder::{load_folder, load_folder_by_name};
    use crate::trace::libraries::RangeNames;
    use stage2_contract::trace::{MonoNs, Process, RangeOpen, Record, Writer};

    /// A process that opens each of `stages` once, 1 us long, with each of `within` in it.
    fn save(folder: &FilePath, pid: u32, stages: &[String], within: &[String]) {
        let file = std::fs::File::create(folder.join(format!("{pid}.s2t"))).expect("file");
        let mut writer = Writer::new(file).expect("a header");
        writer.write(&Record::Process(Process { pid, ..Process::default() }));
        let (mut id, mut range, mut at) = (0, 0, 0);
        let mut open = |writer: &mut Writer<_>, name: &str, path: u32, parent: u64| {
            id += 1;
            range += 1;
            at += 500;
            writer.write(&Record::Name { id, bytes: name.into() });
            writer.write(&Record::Path(Path { id, parent: path, name: id, domain: NONE }));
            let start = MonoNs(at);
            writer.write(&Record::RangeOpen(RangeOpen {
                range,
                path: id,
                thread: 1,
                parent,
                start,
                ..RangeOpen::default()
            }));
            (id, range, MonoNs(at + 1_000))
        };
        for name in stages {
            let (path, stage, end) = open(&mut writer, name, NONE, 0);
            for name in within {
                let (_, inner, end) = open(&mut writer, name, path, stage);
                writer.write(&Record::RangeClose { range: inner, end });
            }
            writer.write(&Record::RangeClose { range: stage, end });
        }
        writer.flush().expect("a disk");
    }

    fn names(stem: &str, count: u64) -> Vec<String> {
        (0..count).map(|at| format!("{stem}{at}")).collect()
    }

    fn requests(from: u64, to: u64) -> Vec<String> {
        let hash = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (from..to).map(|at| format!("request-{:016x}", hash(at + 1))).collect()
    }

    /// Names of the paths of all processes, and how many instances and names each has.
    fn loaded(folder: &FilePath, joins: bool) -> Vec<(String, u64, usize)> {
        let load = if joins { load_folder } else { load_folder_by_name };
        let capture = load(folder, &RangeNames::default());
        let mut found = Vec::new();
        for process in &capture.processes {
            for (path, times) in &process.path_times {
                let name = process.paths[*path as usize].name.expect("a range");
                let name = String::from_utf8_lossy(&process.names[name as usize]).into_owned();
                let joined = process.joined_names.get(path).map_or(1, |names| names.len());
                found.push((name, times.instances, joined));
            }
        }
        found
    }

    #[test]
    fn many_alike_names_are_one_range_with_all_their_instances() {
        let folder = tempfile::tempdir().expect("folder");
        save(folder.path(), 1, &requests(0, 500), &["layer.0".to_owned(), "layer.1".to_owned()]);
        let expected = [("request-*", 500, 500), ("layer.0", 500, 1), ("layer.1", 500, 1)];
        let expected = expected.map(|(name, opened, names)| (name.to_owned(), opened, names));
        assert_eq!(loaded(folder.path(), true), expected);
        // Exports have every name.
        assert_eq!(loaded(folder.path(), false).len(), 1_500);
    }

    #[test]
    fn few_names_and_the_layers_of_a_model_stay_apart() {
        let folder = tempfile::tempdir().expect("folder");
        save(folder.path(), 1, &names("step ", 32), &names("layer.", 126));
        assert_eq!(loaded(folder.path(), true).len(), 32 + 32 * 126);
        save(folder.path(), 1, &names("step ", 33), &names("layer.", 2));
        let found = loaded(folder.path(), true);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], ("step *".to_owned(), 33, 33));
    }

    #[test]
    fn names_that_are_many_in_a_job_are_joined_in_each_of_its_processes() {
        let folder = tempfile::tempdir().expect("folder");
        for rank in 0..4 {
            save(folder.path(), rank, &requests(rank.into(), u64::from(rank) + 4), &[]);
        }
        // Seven requests, which four processes share.
        assert_eq!(loaded(folder.path(), true).len(), 16);
        save(folder.path(), 9, &requests(20, 24), &[]);
        let all = loaded(folder.path(), true);
        assert_eq!(all, vec![("request-*".to_owned(), 4, 4); 5]);
    }
}
