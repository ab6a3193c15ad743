//! Reads the native stacks of threads that wait: of C++ engines, and of threads without Python code.
//!
//! The kernel reports where a blocked thread waits: its instruction and its stack pointer. The tables that compilers
//! write for exceptions (`.eh_frame`) lead from there to the callers. Modules may be unloaded meanwhile, so tables and
//! stacks are read through the kernel ([`memory`](super::memory)). The rule of an instruction is read once and kept,
//! and so is the name of a function, which comes from the symbols of the file. The kernel reports neither the
//! instruction nor the stack pointer of a running thread, so that thread has no native stack.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::Duration;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, LittleEndian, RegisterRule, UnwindContext,
    UnwindSection, X86_64,
};
use rustc_hash::FxHashMap;

use super::memory::Memory;
use super::{CodeText, Round};
use crate::base::call_stacks::Registers;
use crate::base::clock::Instant;

/// The most frames of a stack.
const MAX_FRAMES: usize = 128;
/// The most bytes of a frame.
const MAX_FRAME_BYTES: u64 = 8 << 20;
/// Pages of the stack that one call reads with everything else.
const PAGES: u64 = 4;
const PAGE: u64 = 4096;
/// The list of modules is read again after this time, or at once if an instruction lies in none of them, but not
/// more often than [`LEAST_AGE`].
const MOST_AGE: Duration = Duration::from_secs(10);
const LEAST_AGE: Duration = Duration::from_secs(1);
/// Bytes of `/proc/self/maps` that are read.
const MAX_MAPS: u64 = 8 << 20;
/// Rules and functions that are kept. One more clears them.
const MAX_RULES: usize = 1 << 14;
const MAX_FUNCTIONS: usize = 1 << 12;
/// Bytes of an entry of `.eh_frame` that are read; a longer one has no rule.
const MAX_ENTRY: usize = 16 << 10;
/// Bytes of symbol tables that are read in the life of a process. Later functions have no name.
const MAX_SYMBOL_BYTES: u64 = 1 << 30;
/// Characters that are kept of a name.
const MAX_NAME: usize = 1_000;
/// Numbers of functions have this bit, those of Python's code objects do not.
const NATIVE: u32 = 1 << 31;

/// How to get from a frame to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The caller's stack pointer is a register's value plus `offset`. Its instruction is stored right below it.
    Frame { base: Base, offset: i64, rbp: Rbp },
    /// There is no caller.
    Outermost,
    /// The tables have no rule, or one of those that only frames of signals and of lazy binding need.
    Unknown,
}

/// The register from which the caller's stack pointer is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Rsp,
    /// With its distance from the stack pointer in bytes, if the first instructions of the function give it.
    Rbp(Option<u64>),
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rbp {
    Same,
    /// At the caller's stack pointer plus so much.
    At(i64),
    Lost,
}

/// The code of a module in memory.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    start: u64,
    end: u64,
    /// The address in memory of address 0 of the file.
    bias: u64,
    /// `.eh_frame_hdr`; 0: there is none.
    tables: u64,
    path: String,
    inode: u64,
}

impl Module {
    /// Whether it is the collector, or CUPTI, which calls it.
    fn is_of_callbacks(&self) -> bool {
        let own = Module::is_of_callbacks as fn(&Module) -> bool as usize as u64;
        (self.start..self.end).contains(&own) || self.name().starts_with("libcupti")
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// A function, or a module without a name for the address.
#[derive(Clone, Copy, Debug)]
struct Function {
    start: u64,
    end: u64,
    id: u32,
}

/// A copy of a part of a stack, or the memory itself.
#[derive(Clone, Copy)]
pub(super) enum Stack<'a> {
    InMemory,
    /// From this address, within a callback: the frames of the collector and of CUPTI are left out.
    Copied(u64, &'a [u8]),
}

/// What is known of the native code of this process.
#[derive(Debug, Default)]
pub(super) struct Natives {
    modules: Vec<Module>,
    listed: Option<Instant>,
    rules: FxHashMap<u64, Rule>,
    /// By their first address.
    functions: Vec<Function>,
    last: u32,
    symbol_bytes: u64,
}

impl Natives {
    /// Forgets the functions that earlier rounds named.
    pub(super) fn forget_functions(&mut self) {
        self.functions.clear();
    }

    /// Clears what is known if it is full. Not within a round: its frames name functions by number.
    pub(super) fn make_room(&mut self, round: &mut Round) {
        if self.functions.len() >= MAX_FUNCTIONS {
            self.functions.clear();
            round.forgets_codes = true;
        }
    }

    /// Adds the frames of a stack to the round, the innermost first. Returns whether the outermost ones are missing.
    pub(super) fn walk(
        &mut self,
        registers: Registers,
        stack: Stack,
        memory: &mut Memory,
        round: &mut Round,
    ) -> bool {
        self.list_modules(registers.pc, memory);
        if matches!(stack, Stack::InMemory) {
            let page = registers.sp & !(PAGE - 1);
            memory.clear();
            memory.want(registers.sp, PAGE - (registers.sp - page));
            (1..PAGES).for_each(|next| memory.want(page.saturating_add(next * PAGE), PAGE));
            memory.fill();
        }
        let Registers { mut pc, mut sp, mut rbp } = registers;
        let mut is_callback = matches!(stack, Stack::Copied(..));
        for depth in 0..MAX_FRAMES {
            // A return address may be that of the next function.
            let within = if depth == 0 { pc } else { pc.wrapping_sub(1) };
            let Some(module) = self.module(within) else { return true };
            is_callback &= self.modules.get(module).is_some_and(Module::is_of_callbacks);
            if !is_callback && let Some(function) = self.function(module, within, round) {
                round.frames.push((function, 0));
            }
            let (base, offset, saved) = match self.rule(module, within, memory) {
                Rule::Frame { base, offset, rbp } => (base, offset, rbp),
                Rule::Outermost => return false,
                Rule::Unknown => return true,
            };
            let is_guess = rbp.is_none() && matches!(base, Base::Rbp(_));
            let base = match base {
                Base::Rsp => Some(sp),
                Base::Rbp(above) => rbp.or_else(|| sp.checked_add(above?)),
            };
            let Some(above) = base.and_then(|base| base.checked_add_signed(offset)) else {
                return true;
            };
            // Frames lie above each other: this ends.
            if above <= sp || above - sp > MAX_FRAME_BYTES {
                return true;
            }
            rbp = match saved {
                Rbp::Same => rbp.filter(|_| !is_guess),
                Rbp::At(at) => above.checked_add_signed(at).and_then(|at| word(stack, at, memory)),
                Rbp::Lost => None,
            };
            match above.checked_sub(8).and_then(|at| word(stack, at, memory)) {
                Some(0) => return false,
                Some(caller) if !is_guess || is_behind_call(caller, memory) => pc = caller,
                _ => return true,
            }
            sp = above;
        }
        true
    }

    /// Returns the index of the module that has code at this address.
    fn module(&self, pc: u64) -> Option<usize> {
        let after = self.modules.partition_point(|module| module.start <= pc);
        let index = after.checked_sub(1)?;
        self.modules.get(index).filter(|module| pc < module.end).map(|_| index)
    }

    fn list_modules(&mut self, pc: u64, memory: &mut Memory) {
        let age = self.listed.map(|listed| listed.elapsed());
        let patience = if self.module(pc).is_some() { MOST_AGE } else { LEAST_AGE };
        if age.is_some_and(|age| age < patience) {
            return;
        }
        self.listed = Some(Instant::now());
        let modules = modules(&own_maps(), memory);
        if modules != self.modules {
            self.modules = modules;
            self.rules.clear();
            // Their numbers stay what they are: another one at the same address gets a new one.
            self.functions.clear();
        }
    }

    fn rule(&mut self, module: usize, pc: u64, memory: &mut Memory) -> Rule {
        if let Some(rule) = self.rules.get(&pc) {
            return *rule;
        }
        let tables = self.modules.get(module).map_or(0, |module| module.tables);
        let rule = find_entry(tables, pc, memory)
            .and_then(|entry| entry.rule(pc, memory))
            .unwrap_or(Rule::Unknown);
        if self.rules.len() >= MAX_RULES {
            self.rules.clear();
        }
        self.rules.insert(pc, rule);
        rule
    }

    /// Returns the number of the function at an address. A new one is reported in this round.
    fn function(&mut self, module: usize, pc: u64, round: &mut Round) -> Option<u32> {
        let after = self.functions.partition_point(|function| function.start <= pc);
        let before = after.checked_sub(1).and_then(|index| self.functions.get(index));
        if let Some(function) = before.filter(|function| pc < function.end) {
            return Some(function.id);
        }
        if self.functions.len() >= 2 * MAX_FUNCTIONS {
            return None;
        }
        let module = self.modules.get(module)?;
        let symbol = symbol_at(module, pc, &mut self.symbol_bytes);
        let (start, end, name) = symbol.unwrap_or_else(|| {
            let name = format!("{}+{:#x}", module.name(), pc.wrapping_sub(module.bias));
            (pc, pc + 1, name.into_bytes())
        });
        self.last = self.last.wrapping_add(1);
        let id = NATIVE | self.last;
        let file = module.name().as_bytes();
        round.bytes.extend_from_slice(&name);
        round.bytes.extend_from_slice(file);
        let (name, file) = (name.len(), file.len());
        round.codes.push(CodeText { id, first_line: 0, name, file, table: 0 });
        self.functions.insert(after, Function { start, end, id });
        Some(id)
    }
}

/// Reads eight bytes of a stack.
fn word(stack: Stack, address: u64, memory: &mut Memory) -> Option<u64> {
    match stack {
        Stack::InMemory => memory.number(address),
        Stack::Copied(start, bytes) => {
            let at = usize::try_from(address.checked_sub(start)?).ok()?;
            bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
        }
    }
}

fn own_maps() -> String {
    let mut maps = String::new();
    if let Ok(file) = File::open("/proc/self/maps") {
        // A line that is cut does not parse. What follows a path that is not UTF-8 is left out.
        let _ = file.take(MAX_MAPS).read_to_string(&mut maps);
    }
    maps
}

/// Finds the modules in the lines of `/proc/self/maps`, which are in the order of their addresses.
fn modules(maps: &str, memory: &mut Memory) -> Vec<Module> {
    let mut found = Vec::new();
    let mut first = ("", 0);
    for line in maps.lines() {
        let Some(map) = Map::parse(line) else { continue };
        if map.offset == 0 {
            first = (map.path, map.start);
        }
        if !map.is_code || first.0 != map.path {
            continue;
        }
        if let Some((bias, tables)) = headers(first.1, memory) {
            let (start, end, path, inode) = (map.start, map.end, map.path.to_owned(), map.inode);
            found.push(Module { start, end, bias, tables, path, inode });
        }
    }
    found
}

/// A line of `/proc/self/maps` that belongs to a file.
struct Map<'l> {
    start: u64,
    end: u64,
    is_code: bool,
    offset: u64,
    inode: u64,
    path: &'l str,
}

impl<'l> Map<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let (path_at, _) = line.match_indices('/').next()?;
        let path = line.get(path_at..)?;
        let mut words = line.get(..path_at)?.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        let is_code = words.next()?.as_bytes().get(2) == Some(&b'x');
        let offset = hexadecimal(words.next()?)?;
        let inode = words.nth(1)?.parse().ok()?;
        Some(Map { start, end, is_code, offset, inode, path })
    }
}

/// Reads the program headers of the module that begins at this address: its bias and its `.eh_frame_hdr`.
fn headers(start: u64, memory: &Memory) -> Option<(u64, u64)> {
    const LOADED: u32 = 1;
    const TABLES: u32 = 0x6474_e550;
    const HEADER: usize = 56;
    let mut head = [0; 64];
    if !memory.read(start, &mut head) || !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let at = start.checked_add(long(&head, 32)?)?;
    let count = usize::from(short(&head, 56)?);
    let mut headers = vec![0; HEADER * count.min(64)];
    if !memory.read(at, &mut headers) {
        return None;
    }
    let of = |kind| {
        let mut all = headers.chunks_exact(HEADER);
        all.find(|header| small(header, 0) == Some(kind)).and_then(|header| long(header, 16))
    };
    let bias = start.wrapping_sub(of(LOADED)? & !(PAGE - 1));
    Some((bias, of(TABLES).map_or(0, |tables| bias.wrapping_add(tables))))
}

/// An entry of `.eh_frame` and what it refers to, as its own section.
struct Entry {
    /// The common part and the entry, whose reference to it is changed.
    bytes: Vec<u8>,
    entry: usize,
    /// The address of the first byte, so that the entry is where it is in memory.
    start: u64,
}

/// Finds the entry of the function with this address through the sorted table of `.eh_frame_hdr`.
fn find_entry(tables: u64, pc: u64, memory: &mut Memory) -> Option<Entry> {
    // The pointer is relative to itself, the count a number, and the table relative to its section: what linkers write.
    const ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    const ROWS: u64 = 12;
    let mut head = [0; ROWS as usize];
    if tables == 0 || !memory.read(tables, &mut head) || head[..4] != ENCODINGS {
        return None;
    }
    let row = |index: u64, memory: &mut Memory| {
        let row = memory.number(tables + ROWS + 8 * index)?;
        let of = |number: u32| tables.wrapping_add_signed(i64::from(number as i32));
        Some((of(row as u32), of((row >> 32) as u32)))
    };
    // The last row whose function begins at the address or before it.
    let (mut low, mut high) = (0, u64::from(small(&head, 8)?));
    while low < high {
        let middle = low + (high - low) / 2;
        if row(middle, memory)?.0 <= pc {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let (_, at) = row(low.checked_sub(1)?, memory)?;
    let entry = read_entry(at, memory)?;
    let reference = u64::from(small(&entry, 4)?);
    let mut bytes = read_entry((at + 4).checked_sub(reference)?, memory)?;
    let begin = bytes.len();
    bytes.extend_from_slice(&entry);
    let place = bytes.get_mut(begin + 4..begin + 8)?;
    place.copy_from_slice(&(begin as u32 + 4).to_le_bytes());
    Some(Entry { bytes, entry: begin, start: at.checked_sub(begin as u64)? })
}

fn read_entry(at: u64, memory: &Memory) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    if !memory.read(at, &mut length) {
        return None;
    }
    let length = u32::from_le_bytes(length) as usize + 4;
    let mut bytes = vec![0; Some(length).filter(|length| (12..MAX_ENTRY).contains(length))?];
    memory.read(at, &mut bytes).then_some(bytes)
}

impl Entry {
    fn rule(&self, pc: u64, memory: &Memory) -> Option<Rule> {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        let bases = BaseAddresses::default().set_eh_frame(self.start);
        let offset = EhFrameOffset(self.entry);
        let entry = section.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
        if !entry.contains(pc) {
            return None;
        }
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &bases, &mut context, pc).ok()?;
        match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(-8)) => {}
            Some(RegisterRule::Undefined) => return Some(Rule::Outermost),
            _ => return None,
        }
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let base = match register {
            X86_64::RBP => Base::Rbp(frame_bytes(entry.initial_address(), memory)),
            X86_64::RSP => Base::Rsp,
            _ => return None,
        };
        let rbp = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::SameValue) => Rbp::Same,
            Some(RegisterRule::Offset(at)) => Rbp::At(at),
            Some(_) => Rbp::Lost,
        };
        Some(Rule::Frame { base, offset, rbp })
    }
}

/// Returns the distance in bytes between the frame pointer and the stack pointer of a function that keeps a frame
/// pointer, from its first instructions.
fn frame_bytes(start: u64, memory: &Memory) -> Option<u64> {
    const LANDING: &[u8] = b"\xf3\x0f\x1e\xfa";
    const FRAME: &[u8] = b"\x55\x48\x89\xe5";
    let mut code = [0; 48];
    if !memory.read(start, &mut code) {
        return None;
    }
    let code = code.strip_prefix(LANDING).unwrap_or(&code);
    let mut code = code.strip_prefix(FRAME)?;
    let mut pushed = 0;
    // Registers that it saves come first.
    loop {
        code = match code {
            [0x50..=0x57, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => rest,
            [0x48, 0x83, 0xec, bytes, ..] => return Some(pushed + u64::from(*bytes)),
            [0x48, 0x81, 0xec, bytes @ ..] => return Some(pushed + u64::from(small(bytes, 0)?)),
            _ => return Some(pushed),
        };
        pushed += 8;
    }
}

/// Whether the instruction before this address is a call. Otherwise, it is not a return address.
fn is_behind_call(address: u64, memory: &Memory) -> bool {
    let mut before = [0; 7];
    if !address.checked_sub(7).is_some_and(|start| memory.read(start, &mut before)) {
        return false;
    }
    // Of an address that is given, in a register, or in memory.
    let is_indirect = |at: usize| before[at] == 0xff && before[at + 1] & 0x38 == 0x10;
    before[2] == 0xe8 || [0, 1, 3, 4, 5].into_iter().any(is_indirect)
}

/// Finds the function at an address in the symbols of its file: its range and its name.
fn symbol_at(module: &Module, pc: u64, budget: &mut u64) -> Option<(u64, u64, Vec<u8>)> {
    let file = File::open(&module.path).ok()?;
    // The file may have been replaced since it was loaded.
    if file.metadata().ok().filter(fs::Metadata::is_file)?.ino() != module.inode {
        return None;
    }
    let wanted = pc.wrapping_sub(module.bias);
    symbol_in(&file, wanted, budget).map(|(start, size, name)| {
        let start = start.wrapping_add(module.bias);
        (start, start.saturating_add(size), name)
    })
}

/// Returns the start, the size and the name of the function at this address of the file.
fn symbol_in(file: &File, wanted: u64, budget: &mut u64) -> Option<(u64, u64, Vec<u8>)> {
    const SECTION: usize = 64;
    const ALL: u32 = 2;
    const DYNAMIC: u32 = 11;
    const SYMBOL: usize = 24;
    /// Functions, and those that are chosen when they are loaded.
    const FUNCTIONS: [u8; 2] = [2, 10];
    let head = part(file, 0, 64)?;
    let count = usize::from(short(&head, 60)?);
    let sections = part(file, long(&head, 40)?, SECTION * count)?;
    let section = |index: usize| sections.chunks_exact(SECTION).nth(index);
    let of_kind = |kind| {
        let mut all = sections.chunks_exact(SECTION);
        all.find(|section| small(section, 4) == Some(kind))
    };
    let symbols = of_kind(ALL).or_else(|| of_kind(DYNAMIC))?;
    let names = long(section(small(symbols, 40)? as usize)?, 24)?;
    let (mut at, size) = (long(symbols, 24)?, long(symbols, 32)?);
    let end = at.checked_add(size)?;
    while at < end {
        const CHUNK: u64 = (SYMBOL << 12) as u64;
        let length = (end - at).min(CHUNK);
        if *budget + length > MAX_SYMBOL_BYTES {
            return None;
        }
        *budget += length;
        let chunk = part(file, at, length as usize)?;
        let found = chunk.chunks_exact(SYMBOL).find(|symbol| {
            let is_function = symbol.get(4).is_some_and(|info| FUNCTIONS.contains(&(info & 15)));
            let into = long(symbol, 8).map(|start| wanted.wrapping_sub(start));
            is_function && into < long(symbol, 16) && into.is_some()
        });
        if let Some(symbol) = found {
            let (start, size) = (long(symbol, 8)?, long(symbol, 16)?);
            let mut name = vec![0; MAX_NAME];
            let at = names.checked_add(small(symbol, 0)?.into())?;
            let length = file.read_at(&mut name, at).ok()?;
            name.truncate(length);
            name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(length));
            return Some((start, size, name)).filter(|(_, _, name)| !name.is_empty());
        }
        at += CHUNK;
    }
    None
}

fn part(file: &File, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::tasks::Task;
    use super::*;
    use crate::base::generation;
    use std::io::Write as _;

    /// Sleeps below as many calls of itself as asked for.
    #[inline(never)]
    fn sleeps_below(calls: u32, told: &std::sync::mpsc::Sender<u32>) -> u32 {
        if calls > 0 {
            return std::hint::black_box(sleeps_below(calls - 1, told)) + 1;
        }
        told.send(generation::thread_id() as u32).expect("heard");
        std::thread::park_timeout(Duration::from_secs(60));
        0
    }

    fn names(round: &Round) -> Vec<String> {
        let mut bytes = &round.bytes[..];
        let mut take = |length| {
            let (text, rest) = bytes.split_at(length);
            bytes = rest;
            String::from_utf8_lossy(text).into_owned()
        };
        let codes = round.codes.iter().map(|code| (code.id, take(code.name), take(code.file)));
        let codes: Vec<_> = codes.collect();
        let of = |id| codes.iter().find(|(of, _, _)| *of == id).map(|(_, name, _)| name.clone());
        round.frames.iter().filter_map(|(id, _)| of(*id)).collect()
    }

    #[test]
    fn a_thread_that_waits_has_all_its_callers_down_to_its_start() {
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || sleeps_below(40, &tell));
        let tid = told.recv().expect("a number");
        let mut task = Task::open(tid).expect("files");
        let mut memory = Memory::open(true).expect("own memory");
        let registers = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(1));
            task.state(&(0..0)).expect("a state").1
        });
        let registers = registers.take(5_000).flatten().next().expect("it waits");
        let (mut natives, mut round) = (Natives::default(), Round::default());
        let is_cut = natives.walk(registers, Stack::InMemory, &mut memory, &mut round);
        let found = names(&round);
        let own = found.iter().filter(|name| name.contains("sleeps_below")).count();
        assert_eq!((own, is_cut), (41, false), "{found:?}");
        assert!(task.waits_at(registers) && !task.waits_at(Registers { sp: 8, ..registers }));
        // Once more: nothing is new, and the same functions are named by the same numbers.
        let mut again = Round::default();
        assert!(!natives.walk(registers, Stack::InMemory, &mut memory, &mut again));
        assert!(again.codes.is_empty() && again.frames == round.frames);
        // A copy of the stack gives the same, as far as it goes.
        let mut copy = vec![0; 1 << 10];
        assert!(memory.read(registers.sp, &mut copy));
        let mut of_copy = Round::default();
        let stack = Stack::Copied(registers.sp, &copy);
        assert!(natives.walk(registers, stack, &mut memory, &mut of_copy), "its end is missing");
        assert!(of_copy.frames.len() > 3 && round.frames.starts_with(&of_copy.frames));
        thread.thread().unpark();
        assert_eq!(thread.join().expect("it ends"), 40);
    }

    #[test]
    fn first_instructions_tell_the_size_of_a_frame() {
        let memory = Memory::open(true).expect("own memory");
        let of = |code: &[u8]| {
            let mut whole = [0x90; 48];
            whole[..code.len()].copy_from_slice(code);
            frame_bytes(whole.as_ptr() as u64, &memory)
        };
        let saves = b"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x41\x57\x53\x48\x81\xec\x00\x02\x00\x00";
        assert_eq!(of(saves), Some(16 + 512));
        assert_eq!(of(b"\x55\x48\x89\xe5\x48\x83\xec\x40"), Some(64));
        assert_eq!([of(b"\x55\x48\x89\xe5"), of(b"\x53\x55\x48\x89\xe5")], [Some(0), None]);
        let after = |code: &[u8]| is_behind_call(code.as_ptr() as u64 + 7, &memory);
        assert!(after(b"\x90\x90\xe8\x01\x02\x03\x04") && after(b"\x90\x90\x90\x90\x90\xff\xd0"));
        assert!(after(b"\x90\xff\x15\x01\x02\x03\x04") && !after(b"\x90\x90\x90\x90\x90\xff\xe0"));
        assert!(!after(&[0x90; 7]) && !is_behind_call(8, &memory) && !is_behind_call(3, &memory));
    }

    #[test]
    fn any_registers_and_stack_end_within_bounds() {
        let mut memory = Memory::open(true).expect("own memory");
        let mut natives = Natives::default();
        let code = any_registers_and_stack_end_within_bounds as fn() as usize as u64;
        // Each number of the stack is a return address: no frame comes twice at one place.
        let stack: Vec<u8> = (0..4_000).flat_map(|_| code.to_le_bytes()).collect();
        let sp = 0x7000_0000;
        for (pc, sp, rbp) in [
            (code, sp, Some(sp)),
            (code + 1, sp, Some(0)),
            (code + 40, u64::MAX, None),
            (code, u64::MAX - 7, Some(u64::MAX)),
            (0, 0, None),
            (u64::MAX, sp, None),
        ] {
            let registers = Registers { pc, sp, rbp };
            for stack in [Stack::InMemory, Stack::Copied(0x7000_0000, &stack)] {
                let mut round = Round::default();
                natives.walk(registers, stack, &mut memory, &mut round);
                assert!(round.frames.len() <= MAX_FRAMES);
            }
        }
    }

    #[test]
    fn tables_that_are_cut_or_wrong_have_no_rule() {
        let mut memory = Memory::open(true).expect("own memory");
        let maps = own_maps();
        let code = tables_that_are_cut_or_wrong_have_no_rule as fn() as usize as u64;
        let modules = modules(&maps, &mut memory);
        let own = modules.iter().find(|module| (module.start..module.end).contains(&code));
        let tables = own.expect("this program").tables;
        let entry = find_entry(tables, code, &mut memory).expect("an entry");
        assert!(entry.rule(code, &memory).is_some());
        assert_eq!(entry.rule(code.wrapping_sub(1 << 30), &memory), None, "of another function");
        for length in 0..entry.bytes.len() {
            let bytes = entry.bytes[..length].to_vec();
            let _ = Entry { bytes, ..entry }.rule(code, &memory);
        }
        for at in 0..entry.bytes.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut bytes = entry.bytes.clone();
                bytes[at] = value;
                let _ = Entry { bytes, ..entry }.rule(code, &memory);
            }
        }
        // A table of other encodings, one that is not there, and one whose rows are anything.
        let mut damaged = [1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f].repeat(40);
        assert!(find_entry(damaged.as_ptr() as u64, code, &mut memory).is_none());
        damaged[3] = 0;
        assert!(find_entry(damaged.as_ptr() as u64, code, &mut memory).is_none());
        assert!(find_entry(8, code, &mut memory).is_none());
        let lines = maps.lines().flat_map(|line| (0..line.len()).filter_map(|end| line.get(..end)));
        lines.for_each(|line| drop(super::modules(line, &mut memory)));
    }

    #[test]
    fn symbols_come_from_files_that_may_be_cut_or_replaced() {
        let mut memory = Memory::open(true).expect("own memory");
        let code = symbols_come_from_files_that_may_be_cut_or_replaced as fn() as usize as u64;
        let modules = modules(&own_maps(), &mut memory);
        let own = modules.iter().find(|module| (module.start..module.end).contains(&code));
        let own = own.expect("this program");
        let mut budget = 0;
        let (start, end, name) = symbol_at(own, code, &mut budget).expect("a symbol");
        let name = String::from_utf8(name).expect("text");
        assert!((start..end).contains(&code) && name.contains("may_be_cut_or_replaced"), "{name}");
        assert!(symbol_at(own, code, &mut MAX_SYMBOL_BYTES.clone()).is_none(), "read enough");
        let replaced = Module { inode: own.inode + 1, path: own.path.clone(), ..*own };
        assert!(symbol_at(&replaced, code, &mut 0).is_none());
        // What no symbol covers is named by its module.
        let (mut natives, mut round) =
            (Natives { modules, ..Natives::default() }, Round::default());
        let index = natives.module(code).expect("this program");
        natives.modules[index].inode += 1;
        assert!(natives.function(index, code, &mut round).is_some());
        let text = String::from_utf8_lossy(&round.bytes).into_owned();
        assert!(text.contains("+0x"), "{text}");
        let head = part(&File::open("/proc/self/exe").expect("a file"), 0, 64).expect("its head");
        for length in [0, 1, 40, 63, 64] {
            let mut cut = tempfile::tempfile().expect("a file");
            cut.write_all(&head[..length]).expect("written");
            assert!(symbol_in(&cut, code, &mut 0).is_none());
        }
    }
}
