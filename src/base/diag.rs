//! A message into one line on the guest's stderr: no allocation, no lock, one `write`.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::base::timed_write;

/// Which messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off = 0,
    /// What costs the user data or a feature.
    #[default]
    Warn = 1,
    /// What was found and chosen.
    Info = 2,
    /// Every step.
    Debug = 3,
}

/// One line, including prefix and newline. Longer messages are cut.
const LINE_BYTES: usize = 1024;
/// The longest that a line waits for the reader of the guest's stderr.
const PATIENCE: Duration = Duration::from_millis(200);

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

pub(crate) fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Says something that costs the user data or a feature.
pub fn warn(message: fmt::Arguments<'_>) {
    say(Level::Warn, message, PATIENCE);
}

/// As [`warn`], without a wait: drops what stderr does not take at once.
pub fn warn_at_once(message: fmt::Arguments<'_>) {
    say(Level::Warn, message, Duration::ZERO);
}

/// States what was found or chosen.
pub fn info(message: fmt::Arguments<'_>) {
    say(Level::Info, message, PATIENCE);
}

/// States what is being done.
pub fn debug(message: fmt::Arguments<'_>) {
    say(Level::Debug, message, PATIENCE);
}

fn say(level: Level, message: fmt::Arguments<'_>, patience: Duration) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let mut line = Line { bytes: [0; LINE_BYTES], used: 0 };
    // A cut line is still worth reading.
    let _ = write!(line, "stage2: {message}");
    line.bytes[line.used] = b'\n';
    // A failure has nobody to go to.
    let _ = timed_write::write_stderr(&line.bytes[..=line.used], patience);
}

/// A line on the stack, with one byte kept for the newline.
struct Line {
    bytes: [u8; LINE_BYTES],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            // A message can quote a value from the environment: keep it on its line.
            let character = if character.is_control() { ' ' } else { character };
            let end = self.used + character.len_utf8();
            if end >= LINE_BYTES {
                return Err(fmt::Error);
            }
            character.encode_utf8(&mut self.bytes[self.used..end]);
            self.used = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_hostile_messages_stay_one_line() {
        let mut line = Line { bytes: [0; LINE_BYTES], used: 0 };
        assert!(write!(line, "a\n\x1b[31m{}", "x".repeat(5000)).is_err());
        assert!(line.used < LINE_BYTES);
        assert!(!line.bytes[..line.used].contains(&b'\n'));
        assert!(!line.bytes[..line.used].contains(&0x1b));
    }
}
