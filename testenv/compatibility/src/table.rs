//! The table as Markdown.

use std::fmt::Write as _;
use std::path::Path;

use crate::PAGE;
use crate::combination::{Combination, Filter};
use crate::differences::Differences;
use crate::error::Error;
use crate::features::{Feature, Features, Note};
use crate::results::{Outcome, Results, Run};

const BEGIN: &str = "<!-- features: made from docs/reference/compatibility.json by `make compatibility` -->\n";
const END: &str = "<!-- end of features -->";

/// The table, and what it does not explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The Markdown text.
    pub text: String,
    /// Complaints about the table: tests that fail without a remark or a difference that gives the reason, and those that pass
    /// in spite of a remark that excuses them.
    pub complaints: Vec<String>,
}

#[derive(Debug)]
struct Maker<'a> {
    features: &'a Features,
    differences: &'a Differences,
    notes: Vec<String>,
    complaints: Vec<String>,
}

/// Makes the table.
///
/// # Errors
/// [`Error::NotRun`] if a pinned combination was not run.
pub fn make(features: &Features, differences: &Differences, results: &Results) -> Result<Table, Error> {
    let combinations = Combination::all();
    let runs: Vec<&Run> = combinations.iter().map(|one| results.of(one)).collect::<Result<_, _>>()?;
    let mut maker = Maker { features, differences, notes: Vec::new(), complaints: Vec::new() };
    let mut text = String::from("| |");
    for one in &combinations {
        let _ = write!(text, " {}, {} |", one.envoy, one.filter);
    }
    text += "\n|---|";
    text += &"---|".repeat(combinations.len());
    text.push('\n');
    for feature in &features.features {
        let _ = write!(text, "| {} |", feature.feature);
        for run in &runs {
            let _ = write!(text, " {} |", maker.cell(feature, run));
        }
        text.push('\n');
    }
    for (index, note) in maker.notes.iter().enumerate() {
        let _ = write!(text, "{}{}. {note}", if index == 0 { "\n" } else { "" }, index + 1);
        text.push('\n');
    }
    Ok(Table { text, complaints: maker.complaints })
}

impl Maker<'_> {
    fn cell(&mut self, feature: &Feature, run: &Run) -> String {
        let combination = run.combination();
        if feature.proofs(run.filter).next().is_none() {
            return "–".to_owned();
        }
        if let Some(refusal) = &run.refusal {
            let note = format!("Envoy {} refuses portcullis.{}: `{refusal}`", run.envoy, ending(&combination));
            return format!("no ({})", self.note(note));
        }
        let about = |one: &&Note| one.is_about(&feature.feature, &combination);
        let remarks: Vec<&Note> = self.features.remarks.iter().filter(about).collect();
        let mut notes: Vec<String> = remarks.iter().map(|one| one.text.clone()).collect();
        let mut word = "yes";
        for test in feature.proofs(run.filter) {
            let has_failed = matches!(run.tests.get(test), None | Some(Outcome::Failed));
            let is_excused = remarks.iter().any(|one| one.excuses.iter().any(|excused| excused == test));
            let row = self.differences.excuse(test, &combination);
            notes.extend(row.map(|row| format!("Not quite as the module does it: {row}, in the table below")));
            match (has_failed, is_excused) {
                (true, _) if row.is_some() && word != "no" => word = "differs",
                (true, _) if row.is_some() => {}
                (true, true) => word = "no",
                (true, false) => {
                    word = "no";
                    self.complaints.push(format!("{combination}: {test} fails, and nothing says why"));
                }
                (false, true) => {
                    self.complaints.push(format!("{combination}: {test} passes, and a remark excuses it"));
                }
                (false, false) => {}
            }
        }
        let mut numbers: Vec<usize> = notes.into_iter().map(|note| self.note(note)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
        if numbers.is_empty() { word.to_owned() } else { format!("{word} ({})", numbers.join(", ")) }
    }

    /// The number of a note; one that says the same has the same.
    fn note(&mut self, note: String) -> usize {
        if let Some(place) = self.notes.iter().position(|one| *one == note) {
            return place + 1;
        }
        self.notes.push(note);
        self.notes.len()
    }
}

fn ending(combination: &Combination) -> &'static str {
    match combination.filter {
        Filter::Module => "so",
        Filter::Wasm => "wasm",
    }
}

/// The table in the page below the project's root.
///
/// # Errors
/// [`Error::File`], [`Error::Marks`].
pub fn written(root: &Path) -> Result<String, Error> {
    let page = page(root)?;
    let (_, table, _) = split(&page)?;
    Ok(table.to_owned())
}

/// Puts the table into the page below the project's root.
///
/// # Errors
/// [`Error::File`], [`Error::Marks`].
pub fn write(root: &Path, table: &Table) -> Result<(), Error> {
    let page = page(root)?;
    let (before, _, after) = split(&page)?;
    let path = root.join(PAGE);
    let text = format!("{before}{BEGIN}{}{END}{after}", table.text);
    std::fs::write(&path, text).map_err(|source| Error::File { step: "writing", path, source })
}

fn page(root: &Path) -> Result<String, Error> {
    let path = root.join(PAGE);
    std::fs::read_to_string(&path).map_err(|source| Error::File { step: "reading", path, source })
}

fn split(page: &str) -> Result<(&str, &str, &str), Error> {
    let (before, rest) = page.split_once(BEGIN).ok_or(Error::Marks(PAGE))?;
    let (table, after) = rest.split_once(END).ok_or(Error::Marks(PAGE))?;
    Ok((before, table, after))
}
