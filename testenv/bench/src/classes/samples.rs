//! Shares of the processor time of a whole process, from the samples that `perf` took of it: by area, and by source file, library
//! and class.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};

use clap::Args;
use portcullis_harness::deps;

use super::areas;
use super::executable::Executable;
use super::units::Units;
use crate::error::BenchError;

/// Units with less of all samples are added up.
const SMALL: f64 = 0.01;

/// Prints the owners of the code that Envoy ran, from samples of perf.
///
/// Of one Envoy, run by the tests' binary: `perf record --freq 499 --pid PID`, and after its end
/// `perf script --show-mmap-events --fields comm,ip,sym,dso`, whose output is FILE. For an Envoy that pushes many clusters:
/// `portcullis-bench scale` beside it. Samples are of functions alone, without what they call.
#[derive(Debug, Args)]
pub(crate) struct Samples {
    /// The output of `perf script`.
    file: PathBuf,
    /// Only threads of this name; Envoy's main thread is `envoy`, its workers are `wrk:worker_0` and so on.
    #[arg(long)]
    thread: Option<String>,
}

pub(crate) fn run(options: &Samples) -> Result<(), BenchError> {
    let path = deps::envoy().map_err(portcullis_harness::Error::from)?;
    let executable = Executable::read(&path)
        .map_err(|source| BenchError::Executable { path: path.display().to_string(), source })?;
    let text = std::fs::read_to_string(&options.file)
        .map_err(|source| BenchError::Read { path: options.file.display().to_string(), source })?;
    print!("{}", Shares::new(&text, &executable, &path, options.thread.as_deref()));
    Ok(())
}

/// Samples by owner.
#[derive(Debug, Default)]
struct Shares {
    all: u64,
    areas: BTreeMap<&'static str, u64>,
    units: BTreeMap<String, u64>,
}

impl Shares {
    fn new(text: &str, executable: &Executable, path: &Path, thread: Option<&str>) -> Self {
        let units = Units::new(executable);
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let (mut shares, mut mapped) = (Shares::default(), Vec::new());
        for line in text.lines() {
            if let Some(mapping) = Mapping::parse(line, &file_name) {
                mapped.push(mapping);
            } else if let Some(sample) =
                Sample::parse(line).filter(|sample| thread.is_none_or(|of| of == sample.thread))
            {
                let unit = sample.unit(executable, &units, &mapped, &file_name);
                shares.all += 1;
                *shares.areas.entry(areas::of(&unit)).or_default() += 1;
                *shares.units.entry(unit).or_default() += 1;
            }
        }
        shares
    }
}

impl Display for Shares {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let share = |count: u64| count as f64 / self.all.max(1) as f64;
        writeln!(out, "{} samples\n\n| area | of all |\n|---|---|", self.all)?;
        let mut areas: Vec<_> = self.areas.iter().collect();
        areas.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (area, count) in areas {
            writeln!(out, "| {area} | {:.1} % |", share(*count) * 100.0)?;
        }
        writeln!(out, "\n| file, library or class | of all |\n|---|---|")?;
        let (mut large, small): (Vec<_>, Vec<_>) = self.units.iter().partition(|(_, count)| share(**count) >= SMALL);
        large.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (unit, count) in large {
            writeln!(out, "| `{unit}` | {:.1} % |", share(*count) * 100.0)?;
        }
        let rest = small.into_iter().map(|(_, count)| count).sum();
        writeln!(out, "| others, each below {:.0} % | {:.1} % |", SMALL * 100.0, share(rest) * 100.0)
    }
}

/// A part of the executable's file in memory.
#[derive(Debug, PartialEq)]
struct Mapping {
    start: u64,
    length: u64,
    offset: u64,
}

impl Mapping {
    /// Reads `… PERF_RECORD_MMAP2 1/1: [0x1000(0x200) @ 0x10 …]: r-xp /path/of/envoy`.
    fn parse(line: &str, file_name: &str) -> Option<Self> {
        let (_, record) = line.split_once("PERF_RECORD_MMAP")?;
        let (_, path) = record.rsplit_once(' ')?;
        if path.rsplit('/').next() != Some(file_name) {
            return None;
        }
        let (_, range) = record.split_once("[0x")?;
        let (start, range) = range.split_once("(0x")?;
        let (length, range) = range.split_once(") @ ")?;
        let offset = range.split([' ', ']']).next()?;
        Some(Mapping { start: hex(start)?, length: hex(length)?, offset: hex(offset.trim_start_matches("0x"))? })
    }

    /// The address in the executable, of one in memory.
    fn address(&self, executable: &Executable, at: u64) -> Option<u64> {
        let within = at.checked_sub(self.start).filter(|within| *within < self.length)?;
        executable.at_offset(self.offset + within)
    }
}

#[derive(Debug, PartialEq)]
struct Sample<'a> {
    thread: &'a str,
    at: u64,
    name: &'a str,
    object: &'a str,
}

impl<'a> Sample<'a> {
    /// Reads `thread  55d0c0ffee name (/path/of/object)`.
    fn parse(line: &'a str) -> Option<Self> {
        let (front, object) = line.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
        let (thread, rest) = front.trim_start().split_once(' ')?;
        let (at, name) = rest.trim_start().split_once(' ')?;
        Some(Sample { thread, at: hex(at)?, name, object: object.rsplit('/').next()? })
    }

    fn unit(&self, executable: &Executable, units: &Units, mapped: &[Mapping], file_name: &str) -> String {
        if self.object != file_name {
            return if self.object.starts_with("[kernel") { "kernel" } else { self.object }.to_owned();
        }
        let address = mapped.iter().find_map(|mapping| mapping.address(executable, self.at));
        address.and_then(|address| units.unit(executable.function(address))).unwrap_or_else(|| "unknown".to_owned())
    }
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::executable::{Executable, Section};
    use super::{Mapping, Sample, Shares};

    const FILE: &str = "envoy     PERF_RECORD_MMAP2 7/7: [0x5000(0x1000) @ 0x200 08:01 9 0]: r-xp /opt/envoy\n\
        envoy     PERF_RECORD_MMAP2 7/7: [0x9000(0x1000) @ 0 08:01 9 0]: r-xp /lib/libc.so.6\n\
        envoy            5010 [unknown] (/opt/envoy)\n\
        wrk:worker_0     9010 memcpy (/lib/libc.so.6)\n\
        envoy            ffff8000 do_idle ([kernel.kallsyms])\n";

    fn executable() -> Executable {
        let code = Section { name: "google_malloc".to_owned(), address: 0x3200, bytes: vec![0x90; 256], is_code: true };
        Executable {
            functions: vec![(0x3200, 0x3300)],
            sections: vec![code],
            loaded: vec![(0x200, 0x1000, 0x3200)],
            ..Executable::default()
        }
    }

    #[test]
    fn samples_are_of_the_function_at_their_address() {
        let text = Shares::new(FILE, &executable(), Path::new("/opt/envoy"), None).to_string();
        for row in [
            "3 samples",
            "| `libc.so.6` | 33.3 % |",
            "| `kernel` | 33.3 % |",
            "| allocating and freeing memory (tcmalloc) | 33.3 % |",
        ] {
            assert!(text.contains(row), "{row} in {text}");
        }
    }

    #[test]
    fn samples_of_one_thread_are_told_from_others() {
        let text = Shares::new(FILE, &executable(), Path::new("/opt/envoy"), Some("envoy")).to_string();
        assert!(text.starts_with("2 samples\n"), "{text}");
        assert!(!text.contains("libc"), "{text}");
    }

    #[test]
    fn lines_that_are_neither_are_left_out() {
        for line in ["", "envoy", "envoy 12 (x", "PERF_RECORD_MMAP2 /opt/envoy", "envoy zz name (/opt/envoy)"] {
            assert_eq!(Mapping::parse(line, "envoy"), None, "{line}");
            assert_eq!(Sample::parse(line), None, "{line}");
        }
    }
}
