//! Any text -> a word without blanks and line ends, and back.

/// Writes everything but visible ASCII, and `%` itself, as `%` and two hexadecimal digits of each byte.
pub fn escape(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'%' => word.push_str("%25"),
            0x21..=0x7e => word.push(char::from(byte)),
            _ => word.push_str(&format!("%{byte:02x}")),
        }
    }
    word
}

/// What [`escape`] was given. `None` where the word cannot come from it, or is no UTF-8.
pub fn unescape(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            0x21..=0x7e => byte,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_survives_and_has_neither_blanks_nor_line_ends(text in ".*") {
            let word = escape(&text);
            prop_assert!(word.bytes().all(|byte| byte.is_ascii_graphic()), "{word}");
            prop_assert_eq!(unescape(&word), Some(text));
        }
    }

    #[test]
    fn words_that_no_text_is_written_as_are_refused() {
        for bad in ["%", "%2", "%zz", "a b", "a\nb", "%ff", "é"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }
}
