//! Host and process to the name of the trace file.

/// Bytes of a host name that go into a file name: well under the 255 that file systems allow.
const HOST_LIMIT: usize = 200;

/// Name of the trace file of process `pid` on `host`: `HOST-PID.s2t`.
///
/// What is not an ASCII letter, digit, `.`, `-` or `_` becomes `_`, and so does a leading `.` or
/// `-` (neither a hidden file nor an option); a long host name is cut; none at all becomes `host`.
pub fn file_name(host: &str, pid: u32) -> String {
    let mut name: String = host.chars().take(HOST_LIMIT).map(harmless).collect();
    if name.starts_with(['.', '-']) {
        name.replace_range(..1, "_");
    }
    if name.is_empty() {
        name.push_str("host");
    }
    format!("{name}-{pid}.s2t")
}

fn harmless(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn ordinary_hosts_stay() {
        assert_eq!(file_name("node-07.example_x", 4321), "node-07.example_x-4321.s2t");
    }

    #[test]
    fn no_host_escapes_the_folder() {
        assert_eq!(file_name("../../etc/passwd", 1), "_._.._etc_passwd-1.s2t");
        assert_eq!(file_name("-rf\n\0é", 2), "_rf___-2.s2t");
        assert_eq!(file_name("", 3), "host-3.s2t");
        assert_eq!(file_name(&"ü".repeat(5000), 4), format!("{}-4.s2t", "_".repeat(200)));
    }
}
