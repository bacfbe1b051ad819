use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ReplayError;
use super::record::MAX_LINE;
use super::tally::Tally;

const BETWEEN_REPORTS: Duration = Duration::from_millis(500);
/// The clock is looked at once in so many lines.
const LINES_PER_LOOK: u64 = 4_096;

/// The lines of several files, one after the other. One line at a time is in memory.
pub(super) struct LogLines {
    /// In reverse order.
    waiting: Vec<PathBuf>,
    open: Option<(PathBuf, Box<dyn BufRead>)>,
    line: Vec<u8>,
    progress: Option<Progress>,
}

/// Reports to a person who waits.
struct Progress {
    last: Instant,
    has_written: bool,
}

impl LogLines {
    pub(super) fn open(files: &[PathBuf]) -> Result<Self, ReplayError> {
        let mut waiting: Vec<PathBuf> = files.iter().rev().cloned().collect();
        if waiting.is_empty() {
            waiting.push(PathBuf::from("-"));
        }
        let reads_terminal = waiting.iter().any(|path| is_standard(path)) && io::stdin().is_terminal();
        if reads_terminal && files.is_empty() {
            return Err(ReplayError::NoLog);
        }
        let progress = io::stderr().is_terminal().then(|| Progress { last: Instant::now(), has_written: false });
        Ok(LogLines { waiting, open: None, line: Vec::new(), progress })
    }

    /// The next line that is not empty, or `Some(None)` in place of one that is too long. `None` is the end of all files.
    pub(super) fn next(&mut self, tally: &Tally) -> Result<Option<Option<&[u8]>>, ReplayError> {
        if let Some(progress) = &mut self.progress {
            progress.report(tally);
        }
        loop {
            let Some((path, reader)) = &mut self.open else {
                let Some(path) = self.waiting.pop() else {
                    self.finish();
                    return Ok(None);
                };
                let reader = reader(&path).map_err(|error| ReplayError::Read(path.clone(), error))?;
                self.open = Some((path, reader));
                continue;
            };
            match read_line(reader, &mut self.line) {
                Err(error) => return Err(ReplayError::Read(path.clone(), error)),
                Ok(LineRead::End) => self.open = None,
                Ok(LineRead::TooLong) => return Ok(Some(None)),
                Ok(LineRead::Line) if self.line.trim_ascii().is_empty() => {}
                Ok(LineRead::Line) => return Ok(Some(Some(&self.line))),
            }
        }
    }

    fn finish(&self) {
        if self.progress.as_ref().is_some_and(|progress| progress.has_written) {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Progress {
    fn report(&mut self, tally: &Tally) {
        if !tally.lines.is_multiple_of(LINES_PER_LOOK) || self.last.elapsed() < BETWEEN_REPORTS {
            return;
        }
        (self.last, self.has_written) = (Instant::now(), true);
        let (lines, different) = (tally.lines, tally.different);
        // Nothing depends on it.
        let _ = write!(io::stderr(), "\r{lines} lines read, {different} different\x1b[K");
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn reader(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if is_standard(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 17, File::open(path)?)))
}

enum LineRead {
    Line,
    TooLong,
    End,
}

/// Reads a line into `line`; of one that is too long nothing is kept.
fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<LineRead> {
    line.clear();
    let most = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
    if reader.take(most).read_until(b'\n', line)? == 0 {
        return Ok(LineRead::End);
    }
    if line.last() == Some(&b'\n') || line.len() < MAX_LINE {
        return Ok(LineRead::Line);
    }
    reader.skip_until(b'\n')?;
    Ok(LineRead::TooLong)
}
