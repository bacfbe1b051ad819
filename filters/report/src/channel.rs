//! The channel between the agent and the filter of the Envoy that it runs: Envoy's standard input, a socket. The agent writes
//! commands, a line each. The filter first writes [`ANNOUNCEMENT`], a line as well, and then answers: a line, and the page behind it.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_filter_config::names::{AGENT_ACTIVITY, AGENT_DRAIN, AGENT_LIMITS, AGENT_PARTS};

/// The line by which a filter says that it answers.
pub const ANNOUNCEMENT: &str = AGENT_ACTIVITY;

/// A command of the agent's; displayed as its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To send the connections of long-running requests away, and end watches one after the other within that time.
    Drain(Duration),
    /// To answer with the page of activity, under that number.
    Activity(u64),
    /// To answer with a report of the use of limits that gateways share, under that number; empty if the process has none.
    Limits(u64),
    /// To apply the parts of these limits: an encoded [`crate::limits::PartsMessage`].
    Parts(Vec<u8>),
}

impl Command {
    /// Reads a line. `None` for a command that is not known.
    pub fn parse(line: &str) -> Option<Self> {
        match line.trim().split_once(' ')? {
            (AGENT_DRAIN, time) => Some(Command::Drain(Duration::from_millis(time.parse().ok()?))),
            (AGENT_ACTIVITY, number) => Some(Command::Activity(number.parse().ok()?)),
            (AGENT_LIMITS, number) => Some(Command::Limits(number.parse().ok()?)),
            (AGENT_PARTS, text) => Some(Command::Parts(STANDARD.decode(text).ok()?)),
            _ => None,
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Drain(time) => writeln!(f, "{AGENT_DRAIN} {}", time.as_millis()),
            Command::Activity(number) => writeln!(f, "{AGENT_ACTIVITY} {number}"),
            Command::Limits(number) => writeln!(f, "{AGENT_LIMITS} {number}"),
            Command::Parts(message) => writeln!(f, "{AGENT_PARTS} {}", STANDARD.encode(message)),
        }
    }
}

/// Writes the answer to [`Command::Activity`] or [`Command::Limits`].
///
/// # Errors
/// That of the writer. The next answer would be taken for the rest of this page: the channel has to be given up.
pub fn write_answer(mut writer: impl Write, number: u64, page: &[u8]) -> io::Result<()> {
    writeln!(writer, "{AGENT_ACTIVITY} {number} {}", page.len())?;
    writer.write_all(page)
}

/// The number of an answer, and the length of its page, out of its first line.
pub fn parse_answer(line: &str) -> Option<(u64, u64)> {
    let (number, length) = line.strip_prefix(AGENT_ACTIVITY)?.trim().split_once(' ')?;
    Some((number.parse().ok()?, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        let parts = Command::Parts(vec![0, 10, 13, 255]);
        for command in
            [Command::Drain(Duration::from_millis(1_500)), Command::Activity(u64::MAX), Command::Limits(0), parts]
        {
            assert_eq!(Command::parse(&command.to_string()), Some(command));
        }
        for odd in ["", "leave", "leave x", "leave -1", "activity", "activity 1 2", "restart 1", "parts *", "limits"] {
            assert_eq!(Command::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn answers_are_read_as_they_are_written() {
        let mut bytes = Vec::new();
        write_answer(&mut bytes, 7, b"{}\n").unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, page) = text.split_once('\n').unwrap();
        assert_eq!((parse_answer(head), page), (Some((7, 3)), "{}\n"));
        for odd in ["activity", "activity 1", "activity 1 x", "leave 1 2"] {
            assert_eq!(parse_answer(odd), None, "{odd}");
        }
    }
}
