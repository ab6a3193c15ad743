//! What a file defines (names, kernels, ranges, queues) -> what its records need of it. All bounded.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use stage2_contract::text::{
    is_library_domain, is_record, kernel_name, pattern_of, shorten, visible,
};
use stage2_contract::trace::{NONE, Path, Shape};
use stage2_read::engine::{Engines, Named, StepWork};
use stage2_read::kernel_class::{KernelClass, class_of};

use crate::{MAX_STAGES, OTHER};

/// Names, and their bytes together, that are kept; also kernels with launch configuration, paths, queues.
const NAMES: usize = 1 << 16;
const NAME_BYTES: usize = 32 << 20;
const SHAPES: usize = 1 << 17;
const PATHS: usize = 1 << 16;
const QUEUES: usize = 1 << 14;
/// Kernels that have their own name here.
const KERNELS: usize = 4_096;
/// Once all stages are in use, this many that differ only in a number or an identifier become one.
const NUMBERED: usize = MAX_STAGES / 4;
const STAGE_NAME: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelId(pub(crate) u32);

impl KernelId {
    /// Those beyond the limit.
    pub(crate) const OTHER: KernelId = KernelId(0);
}

/// Work outside of the ranges of the program.
pub(crate) const OUTSIDE: u16 = 0;
/// Work whose launch could not be placed.
pub(crate) const UNATTRIBUTED: u16 = 1;
/// Ranges that the file does not define.
const UNDEFINED: u16 = 2;
/// Stages beyond the limit.
const OTHER_STAGE: u16 = 3;
/// What these are called; the first two as in reports.
pub(crate) const UNATTRIBUTED_NAME: &str = "(unattributed)";
const STAND_INS: [&str; 4] = ["(outside ranges)", UNATTRIBUTED_NAME, "(undefined range)", OTHER];

/// Where a path of ranges belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The outermost range of the program; nothing where only libraries' are open.
    pub(crate) stage: Option<u16>,
    /// Its innermost range is one of the program.
    pub(crate) of_program: bool,
    /// It is the stage itself; else, right within it, the name of its innermost range.
    pub(crate) is_outermost: bool,
    pub(crate) within: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    names: FxHashMap<u32, Box<[u8]>>,
    name_bytes: usize,
    shapes: FxHashMap<u32, (KernelId, u8)>,
    kernels: Vec<(String, u8)>,
    kernel_ids: HashMap<Box<[u8]>, KernelId>,
    paths: FxHashMap<u32, Place>,
    engines: Engines,
    /// What the steps of an engine work on whose names report it, by their paths.
    works: FxHashMap<u32, StepWork>,
    stages: Vec<String>,
    stage_ids: HashMap<String, u16>,
    /// Stages that were joined into another one, such as `step 17` into `step *`.
    parts: FxHashMap<u16, u16>,
    queues: FxHashMap<u32, u32>,
    /// Definitions that found no room.
    pub(crate) left_out: u64,
}

impl Tables {
    pub(crate) fn new() -> Self {
        let kernels = vec![(OTHER.to_owned(), OTHER_KERNEL)];
        Self { kernels, stages: STAND_INS.map(str::to_owned).to_vec(), ..Self::default() }
    }

    pub(crate) fn name(&mut self, id: u32, bytes: Vec<u8>) {
        let before = self.names.get(&id).map_or(0, |known| known.len());
        let full = self.names.len() >= NAMES && !self.names.contains_key(&id);
        let bytes_then = self.name_bytes.saturating_sub(before).saturating_add(bytes.len());
        if full || bytes_then > NAME_BYTES {
            self.left_out += 1;
            return;
        }
        self.name_bytes = bytes_then;
        self.names.insert(id, bytes.into());
    }

    pub(crate) fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.names.get(&id).map(|name| &**name)
    }

    pub(crate) fn shape(&mut self, shape: &Shape) {
        let kernel = self.kernel(shape.name);
        self.left_out += u64::from(!keep(&mut self.shapes, SHAPES, shape.id, kernel));
    }

    fn kernel(&mut self, name: u32) -> (KernelId, u8) {
        let unknown = (KernelId::OTHER, OTHER_KERNEL);
        let Some(bytes) = self.names.get(&name) else { return unknown };
        if let Some(&id) = self.kernel_ids.get(bytes) {
            return (id, self.kernels.get(id.0 as usize).map_or(unknown.1, |kernel| kernel.1));
        }
        let name = kernel_name(bytes);
        let class = class_of(&name) as u8;
        if self.kernels.len() >= KERNELS {
            return (KernelId::OTHER, class);
        }
        let id = KernelId(self.kernels.len() as u32);
        self.kernel_ids.insert(bytes.clone(), id);
        self.kernels.push((name.short, class));
        (id, class)
    }

    pub(crate) fn kernel_of(&self, shape: u32) -> (KernelId, u8) {
        self.shapes.get(&shape).copied().unwrap_or((KernelId::OTHER, OTHER_KERNEL))
    }

    pub(crate) fn kernel_name(&self, kernel: KernelId) -> (&str, u8) {
        let known = self.kernels.get(kernel.0 as usize);
        known.map_or((OTHER, OTHER_KERNEL), |(name, class)| (name.as_str(), *class))
    }

    pub(crate) fn queue(&mut self, id: u32, device: u32) {
        self.left_out += u64::from(!keep(&mut self.queues, QUEUES, id, device));
    }

    pub(crate) fn device_of(&self, queue: u32) -> Option<u32> {
        self.queues.get(&queue).copied()
    }

    pub(crate) fn path(&mut self, path: &Path) {
        let domain = self.names.get(&path.domain).filter(|_| path.domain != NONE);
        // A record contains no work and is not a stage either.
        let of_library = domain.is_some_and(|domain| is_library_domain(domain))
            || self.names.get(&path.name).is_some_and(|name| is_record(name));
        let around = match path.parent {
            NONE => None,
            id => self.paths.get(&id).map_or(Some(UNDEFINED), |place| place.stage),
        };
        self.works.remove(&path.id);
        let own = self.names.get(&path.name).filter(|_| around.is_none() && !of_library);
        let named = own.and_then(|name| self.engines.read(name)).map(|(_, named)| named);
        // A range of an engine that holds no work is no stage either.
        let of_library = of_library || matches!(named, Some(Named::Empty | Named::Captured(_)));
        let stage = match (around, named) {
            (None, Some(Named::Step(work))) => {
                keep(&mut self.works, PATHS, path.id, work);
                Some(self.known_stage(work.kind().to_string()))
            }
            (None, _) if !of_library => Some(self.stage(path)),
            (around, _) => around,
        };
        let is_right_within = self.paths.get(&path.parent).is_some_and(|place| place.is_outermost);
        let within = (is_right_within && !of_library).then_some(path.name);
        let is_outermost = around.is_none() && stage.is_some();
        let place = Place { stage, of_program: !of_library, is_outermost, within };
        self.left_out += u64::from(!keep(&mut self.paths, PATHS, path.id, place));
    }

    /// The stage that this path is, by the name that reports give it.
    fn stage(&mut self, path: &Path) -> u16 {
        let shown = |id: u32| match self.names.get(&id).map(|name| &**name) {
            None => "(undefined name)".to_owned(),
            Some([]) => "(empty name)".to_owned(),
            Some(name) => shorten(&visible(name), STAGE_NAME),
        };
        let name = match path.domain {
            NONE => shown(path.name),
            domain => format!("{}@{}", shown(path.name), shown(domain)),
        };
        self.known_stage(name)
    }

    fn known_stage(&mut self, name: String) -> u16 {
        if let Some(&known) = self.stage_ids.get(&name) {
            return known;
        }
        let pattern = pattern_of(&name).into_owned();
        if let Some(&known) = self.stage_ids.get(&pattern).filter(|_| pattern != name) {
            return known;
        }
        if self.stage_ids.len() < MAX_STAGES {
            return self.add_stage(name);
        }
        self.join_numbered(pattern).unwrap_or(OTHER_STAGE)
    }

    fn add_stage(&mut self, name: String) -> u16 {
        let id = self.stages.len() as u16;
        self.stages.push(name.clone());
        self.stage_ids.insert(name, id);
        id
    }

    /// Joins the stages that match `pattern` into one, if there are enough of them. Steps with a number in
    /// their names would otherwise use up all stages with one instance each.
    fn join_numbered(&mut self, pattern: String) -> Option<u16> {
        let same: Vec<String> =
            self.stage_ids.keys().filter(|name| pattern_of(name) == pattern).cloned().collect();
        if same.len() < NUMBERED {
            return None;
        }
        let all = self.stages.len() as u16;
        for name in same {
            let part = self.stage_ids.remove(&name)?;
            self.parts.insert(part, all);
        }
        Some(self.add_stage(pattern))
    }

    /// What a step of an engine works on, as the name of its path says.
    pub(crate) fn step_work(&self, path: u32) -> Option<StepWork> {
        self.works.get(&path).copied()
    }

    /// The stage that it is a part of, or itself.
    pub(crate) fn whole_stage(&self, stage: u16) -> u16 {
        self.parts.get(&stage).copied().unwrap_or(stage)
    }

    pub(crate) fn place(&self, path: u32) -> Place {
        let undefined = Place { stage: Some(UNDEFINED), of_program: true, ..Place::default() };
        self.paths.get(&path).copied().unwrap_or(undefined)
    }

    pub(crate) fn stage_name(&self, stage: u16) -> &str {
        self.stages.get(usize::from(self.whole_stage(stage))).map_or(OTHER, String::as_str)
    }
}

/// Keeps a definition where there is room for it; gives whether there is.
fn keep<V>(known: &mut FxHashMap<u32, V>, most: usize, id: u32, value: V) -> bool {
    let has_room = known.len() < most || known.contains_key(&id);
    if has_room {
        known.insert(id, value);
    }
    has_room
}

/// The names of the classes, by number: those of kernels as in reports, then copies, fills, and graphs
/// that were recorded as a whole.
const CLASSES: &[KernelClass] = KernelClass::ALL;
/// Classes of kernels and the three others.
pub(crate) const COUNT: usize = CLASSES.len() + 3;
/// The class of kernels that are of no other: the last one.
const OTHER_KERNEL: u8 = CLASSES.len() as u8 - 1;
pub(crate) const COMMUNICATION: u8 = KernelClass::Communication as u8;
pub(crate) const MEMCPY: u8 = CLASSES.len() as u8;
pub(crate) const MEMSET: u8 = MEMCPY + 1;
/// Graphs without records of their kernels.
pub(crate) const GRAPH: u8 = MEMSET + 1;

/// The name of a class by its number.
pub fn class_label(class: u8) -> &'static str {
    match class {
        MEMCPY => "memcpy",
        MEMSET => "memset",
        GRAPH => "graph",
        class => CLASSES.get(usize::from(class)).map_or("other", |class| class.label()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(id: u32, parent: u32, name: u32, domain: u32) -> Path {
        Path { id, parent, name, domain }
    }

    #[test]
    fn ranges_of_libraries_are_never_around_those_of_the_program() {
        let mut tables = Tables::new();
        for (id, name) in [(1, "decode"), (2, "NCCL"), (3, "ncclAllReduce"), (4, "inner")] {
            tables.name(id, name.into());
        }
        for each in [path(1, 0, 3, 2), path(2, 1, 1, 0), path(3, 2, 3, 2), path(4, 3, 4, 0)] {
            tables.path(&each);
        }
        let decode = tables.place(2).stage;
        assert_eq!(tables.stage_name(decode.unwrap()), "decode");
        let of = |path: u32| {
            let place = tables.place(path);
            (place.stage, place.of_program, place.is_outermost, place.within)
        };
        assert_eq!(of(1), (None, false, false, None));
        assert_eq!(of(2), (decode, true, true, None));
        assert_eq!(of(3), (decode, false, false, None));
        assert_eq!(of(4), (decode, true, false, None), "a range of a library is around it");
        assert_eq!(tables.place(99).stage, Some(UNDEFINED));
    }

    /// A name without a number: `a`, `b`, ..., `ba`.
    fn letters(mut number: u32) -> String {
        let mut name = String::new();
        while number > 0 {
            name.insert(0, char::from(b'a' + (number % 26) as u8));
            number /= 26;
        }
        name
    }

    /// Hazard (Watching what runs): Each step has its own name (`step 17`).
    /// Promise: Such steps become one stage before they crowd out the other stages.
    #[test]
    fn steps_with_numbers_in_their_names_become_one_stage_once_they_leave_no_room() {
        let mut tables = Tables::new();
        let name = |tables: &mut Tables, id: u32, name: String| {
            tables.name(id, name.into());
            tables.path(&path(id, 0, id, 0));
            tables.place(id).stage.unwrap()
        };
        let decode = name(&mut tables, 1, "decode".to_owned());
        let layers: Vec<u16> =
            (2..10).map(|id| name(&mut tables, id, format!("layer {id}"))).collect();
        let steps: Vec<u16> =
            (10..200).map(|id| name(&mut tables, id, format!("step {id}"))).collect();
        for &step in [&steps[0], &steps[54], &steps[100], &steps[189]] {
            assert_eq!(tables.stage_name(step), "step *");
            assert_eq!(tables.whole_stage(step), steps[189]);
        }
        // The other stages stay, and there is room for new ones.
        assert_eq!(
            (tables.stage_name(decode), tables.stage_name(layers[3])),
            ("decode", "layer 5")
        );
        let late = name(&mut tables, 300, "prefill".to_owned());
        assert_eq!(tables.stage_name(late), "prefill");
        for id in 400..600 {
            name(&mut tables, id, format!("batch {id} of 9"));
        }
        let batch = tables.place(599).stage.unwrap();
        assert_eq!(tables.stage_name(batch), "batch * of *");
        assert!(tables.stage_ids.len() <= MAX_STAGES && tables.stages.len() < 3 * MAX_STAGES);
    }

    #[test]
    fn stages_beyond_the_limit_are_one_row_and_names_are_visible() {
        let mut tables = Tables::new();
        for id in 1..=MAX_STAGES as u32 + 20 {
            tables.name(id, format!("\x1b[2J{}", letters(id)).into());
            tables.path(&path(id, 0, id, 0));
        }
        assert_eq!(tables.place(MAX_STAGES as u32 + 1).stage, Some(OTHER_STAGE));
        assert_eq!(tables.stage_name(tables.place(7).stage.unwrap()), "\\x1b[2Jh");
        assert_eq!(tables.stages.len(), MAX_STAGES + STAND_INS.len());
    }

    #[test]
    fn more_than_fits_is_counted_and_known_as_other() {
        let mut tables = Tables::new();
        tables.name(1, vec![b'x'; NAME_BYTES]);
        tables.name(2, b"gemm".to_vec());
        tables.shape(&Shape { id: 1, name: 2, ..Shape::default() });
        assert_eq!((tables.left_out, tables.kernel_of(1).0), (1, KernelId::OTHER));
        tables.name(1, b"gemm".to_vec());
        tables.shape(&Shape { id: 1, name: 1, ..Shape::default() });
        let (kernel, class) = tables.kernel_of(1);
        assert_eq!((tables.kernel_name(kernel), class_label(class)), (("gemm", class), "gemm"));
    }

    #[test]
    fn kernels_have_the_classes_of_reports_and_every_class_a_name_of_its_own() {
        for (at, class) in CLASSES.iter().enumerate() {
            assert_eq!(*class as usize, at, "{class:?}");
        }
        let of = |name: &str| class_label(class_of(&kernel_name(name.as_bytes())) as u8);
        assert_eq!(of("sm90_xmma_gemm_bf16"), "gemm");
        assert_eq!(of("ncclDevKernel_AllReduce_Sum_bf16"), "communication");
        assert_eq!(of("no such thing"), "other");
        let mut labels: Vec<_> = (0..COUNT as u8).map(class_label).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), COUNT);
    }
}
