//! What teaches an agent this program.

use super::ending::printed;
use crate::cli::SkillArgs;
use crate::failure::Failure;

/// The same as in the wheel and the tar file.
const SKILL: &str = include_str!("../../../packaging/agents/SKILL.md");

/// Prints it, with the option that says so and without.
pub(crate) fn skill(args: &SkillArgs) -> Result<u8, Failure> {
    let SkillArgs { print: _ } = args;
    printed(SKILL)
}
