//! The parts of docs/performance.md that commands write, and the machine that figures are of.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use portcullis_harness::{deps, project_root};

use crate::error::BenchError;

const DOCUMENT: &str = "docs/performance.md";
const FRONT_PAGE: &str = "README.md";

/// Replaces the lines of docs/performance.md between a part's marks, `<!-- NAME: ... -->` and `<!-- end of NAME -->`.
pub(crate) fn write(name: &str, text: &str) -> Result<(), BenchError> {
    write_in(DOCUMENT, name, text)
}

/// The same in README.md.
pub(crate) fn write_front(name: &str, text: &str) -> Result<(), BenchError> {
    write_in(FRONT_PAGE, name, text)
}

fn write_in(document: &str, name: &str, text: &str) -> Result<(), BenchError> {
    let path = project_root().join(document);
    let failed = |source| BenchError::Read { path: document.to_owned(), source };
    let before = std::fs::read_to_string(&path).map_err(failed)?;
    let after = replaced(&before, name, text).ok_or_else(|| BenchError::NoPart(name.to_owned()))?;
    save(&path, &after)
}

/// Writes a picture beside the documents.
pub(crate) fn picture(name: &str, svg: &str) -> Result<(), BenchError> {
    save(&project_root().join("docs/images").join(format!("{name}.svg")), svg)
}

/// Writes a file.
pub(crate) fn save(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|source| BenchError::Write { path: path.display().to_string(), source })
}

fn replaced(document: &str, name: &str, text: &str) -> Option<String> {
    let start = document.find(&format!("<!-- {name}: "))?;
    let body = start + document.get(start..)?.find('\n')? + 1;
    let end = body + document.get(body..)?.find(&format!("<!-- end of {name} -->"))?;
    Some(format!("{}\n{}\n\n{}", document.get(..body)?, text.trim(), document.get(end..)?))
}

/// The machine, the versions and the day of a measurement, as a sentence.
pub(crate) fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, model)| model))
        .collect();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let linux = kernel.trim().split('-').next().unwrap_or_default().to_owned();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(1).unwrap_or("?").to_owned();
    format!(
        "{} cores of {}, Linux {linux}, Envoy {}, {}; load average of five minutes at the end: {load}",
        models.len(),
        models.first().copied().unwrap_or("an unknown processor"),
        deps::envoy_versions().last().cloned().unwrap_or_default(),
        day(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400),
    )
}

/// The date of a day since 1970, by the calendar's cycle of 400 years.
fn day(since: u64) -> String {
    let days = since + 719_468;
    let (cycle, of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Years begin with March here.
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_cycle + cycle * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use super::{day, replaced};

    #[test]
    fn part_is_replaced_between_its_marks() {
        let document = "a\n<!-- x: by make x -->\nold\n<!-- end of x -->\nb\n";
        assert_eq!(
            replaced(document, "x", "new\n").unwrap(),
            "a\n<!-- x: by make x -->\n\nnew\n\n<!-- end of x -->\nb\n"
        );
        assert_eq!(replaced(document, "y", "new"), None);
    }

    #[test]
    fn day_follows_the_calendar() {
        assert_eq!([0, 59, 11_016, 20_785].map(day), ["1970-01-01", "1970-03-01", "2000-02-29", "2026-11-28"]);
    }
}
