//! What teaches an agent this program.

use super::ending::printed;
use crate::cli::SkillArgs;
use crate::failure::Failure;

/// The text of SKILL.md, which the wheel and the tar file contain as well.
const SKILL: &str = include_str!("../../../packaging/agents/SKILL.md");

/// Prints it, with the option `--print` and without.
pub(crate) fn skill(args: &SkillArgs) -> Result<u8, Failure> {
    let SkillArgs { print: _ } = args;
    printed(SKILL)
}
