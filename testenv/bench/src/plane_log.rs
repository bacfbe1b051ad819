//! The control plane's log, followed while it is written: asking /status would cost more than what is measured.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_micros(300);

/// A log and how far it was read.
pub(crate) struct Log {
    file: File,
    path: String,
    rest: String,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Result<Self, BenchError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| BenchError::Read { path: name.clone(), source })?;
        Ok(Self { file, path: name, rest: String::new() })
    }

    /// Forgets what was written so far.
    pub(crate) fn skip(&mut self) -> Result<(), BenchError> {
        self.read()?;
        self.rest.clear();
        Ok(())
    }

    /// Waits for a line with `text` in it, and returns it.
    pub(crate) fn line_with(&mut self, text: &'static str, deadline: Duration) -> Result<String, BenchError> {
        let start = Instant::now();
        loop {
            self.read()?;
            while let Some((line, rest)) = self.rest.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.rest = rest;
                if line.contains(text) {
                    return Ok(line);
                }
            }
            if start.elapsed() > deadline {
                return Err(BenchError::Silent { text });
            }
            std::thread::park_timeout(INTERVAL);
        }
    }

    fn read(&mut self) -> Result<(), BenchError> {
        let failed = |source| BenchError::Read { path: self.path.clone(), source };
        self.file.read_to_string(&mut self.rest).map(drop).map_err(failed)
    }
}
