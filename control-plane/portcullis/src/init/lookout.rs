use std::fmt;
use std::time::{Duration, Instant};

use super::files::Layout;
use super::member::Member;
use super::programs::{self, KEPT_LINES};

/// How often a state is asked for that is waited for.
const PACE: Duration = Duration::from_millis(250);
/// How long a server that has ended may take to be started again, by systemd for one.
const GRACE: Duration = Duration::from_secs(3);
/// Maximum characters of a line that is shown.
const MAX_LINE: usize = 600;

/// The lines with which a server has ended, as its start script keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastLines {
    program: &'static str,
    lines: Vec<String>,
}

impl fmt::Display for LastLines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} has ended", self.program)?;
        if self.lines.is_empty() {
            return formatter.write_str(" without a word");
        }
        formatter.write_str(". Its last lines:")?;
        self.lines.iter().try_for_each(|line| write!(formatter, "\n  {line}"))
    }
}

/// The wait for a member's servers, until a deadline or until one of them has ended.
pub(super) struct Lookout<'a> {
    layout: &'a Layout,
    member: &'a Member,
    deadline: Instant,
    /// The end that was seen first, and when.
    first: Option<(LastLines, Instant)>,
}

/// Why it is not waited on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Over {
    Deadline,
    Ended(LastLines),
}

impl<'a> Lookout<'a> {
    pub(super) fn new(layout: &'a Layout, member: &'a Member, timeout: Duration) -> Self {
        Self { layout, member, deadline: Instant::now() + timeout, first: None }
    }

    /// Waits a moment, after a server did not answer.
    pub(super) async fn wait(&mut self) -> Result<(), Over> {
        self.judge(Instant::now())?;
        tokio::time::sleep(PACE).await;
        Ok(())
    }

    fn judge(&mut self, now: Instant) -> Result<(), Over> {
        match (self.ended(), &self.first) {
            (Some(lines), Some((first, since))) if lines != *first || now.duration_since(*since) >= GRACE => {
                return Err(Over::Ended(lines));
            }
            (Some(lines), None) => self.first = Some((lines, now)),
            _ => {}
        }
        if now > self.deadline { Err(Over::Deadline) } else { Ok(()) }
    }

    /// The server that has ended since its last start. Unknown where the directory of the member is on another host.
    fn ended(&self) -> Option<LastLines> {
        programs::NAMES.into_iter().find_map(|program| {
            let name = format!("members/{}/{}", self.member.name, programs::ended_file(program));
            // A file that cannot be read says nothing: the servers are asked in any case.
            let content = self.layout.read(&name).ok()??;
            let text = String::from_utf8_lossy(&content);
            let all: Vec<&str> = text.lines().collect();
            let shown = |line: &&str| crate::display_text::one_line(line).chars().take(MAX_LINE).collect();
            let lines = all.iter().skip(all.len().saturating_sub(KEPT_LINES)).map(shown).collect();
            Some(LastLines { program, lines })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_server_is_seen_after_a_grace_or_at_its_second_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut layout = Layout::open(dir.path()).unwrap();
        let member = Member::local();
        let file = "members/local/run/kube-apiserver.ended";
        let seen_at = |layout: &Layout, steps: &[(u64, Option<&str>)]| {
            let mut lookout = Lookout::new(layout, &member, Duration::from_secs(60));
            let begin = Instant::now();
            for (second, content) in steps {
                let path = layout.path(file);
                match content {
                    Some(content) => std::fs::write(&path, content).unwrap(),
                    None => drop(std::fs::remove_file(&path)),
                }
                match lookout.judge(begin + Duration::from_secs(*second)) {
                    Ok(()) => {}
                    Err(over) => return Some((*second, over)),
                }
            }
            None
        };
        layout.write(file, b"", 0o600).unwrap();
        let lines = |lines: &[&str]| {
            let lines = lines.iter().map(|&line| line.to_owned()).collect();
            Over::Ended(LastLines { program: "kube-apiserver", lines })
        };
        let bad = Some("unknown flag: --bad\n");
        let seen = seen_at(&layout, &[(0, bad), (1, bad), (4, bad)]);
        assert_eq!(seen, Some((4, lines(&["unknown flag: --bad"]))));
        assert_eq!(seen_at(&layout, &[(0, bad), (1, None), (10, None)]), None, "it was started again");
        let other = Some("\u{1b}[2Jsecond\n");
        let seen = seen_at(&layout, &[(0, bad), (1, None), (2, other)]);
        assert_eq!(seen, Some((2, lines(&["\u{fffd}[2Jsecond"]))));
        assert_eq!(seen_at(&layout, &[(0, None), (61, None)]), Some((61, Over::Deadline)));
        let many = "line\n".repeat(1_000) + &"x".repeat(10_000);
        let Some((_, Over::Ended(last))) = seen_at(&layout, &[(0, Some(&many)), (5, Some(&many))]) else { panic!() };
        assert_eq!((last.lines.len(), last.lines[KEPT_LINES - 1].len()), (KEPT_LINES, MAX_LINE));
    }
}
