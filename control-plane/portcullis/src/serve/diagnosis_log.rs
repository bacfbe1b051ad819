//! Problems of objects in the log: with file, line, field and hint, and each only once.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use portcullis_api::{Problem, lint_cluster, parse_cluster};
use portcullis_sources::{ObjectSet, Place};
use portcullis_translate::Diagnosis;
use tracing::Level;

use super::by_place::ByPlace;

/// Logs problems that are new.
#[derive(Default)]
pub(super) struct DiagnosisLog {
    /// The records of each diagnosis: one that is the same allocation has nothing new.
    known: ByPlace<Diagnosis, Vec<LogRecord>>,
    /// The set before: what is still the same document was looked through already.
    before: Arc<ObjectSet>,
}

/// One thing that is wrong or suspicious.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LogRecord {
    is_refused: bool,
    kind: String,
    name: String,
    file: Option<String>,
    line: Option<u64>,
    column: Option<u64>,
    field: String,
    hint: Option<String>,
    message: String,
}

impl DiagnosisLog {
    /// Logs the problems of a set that the set before did not have. `diagnoses` are those of its files, its settings, its
    /// clusters and its instances, in this order.
    pub(super) fn follow(&mut self, objects: &Arc<ObjectSet>, diagnoses: &[Arc<Diagnosis>]) {
        self.take(objects, diagnoses).iter().for_each(LogRecord::log);
        if tracing::enabled!(Level::DEBUG) {
            self.lint(objects);
        }
        self.before = Arc::clone(objects);
    }

    /// The records that the set before did not have.
    fn take(&mut self, objects: &ObjectSet, diagnoses: &[Arc<Diagnosis>]) -> Vec<LogRecord> {
        let mut new = Vec::new();
        let change = self.known.follow(diagnoses, |at, diagnosis| {
            let records = records_of(diagnosis, place(objects, at));
            new.extend(records.iter().cloned());
            records
        });
        if new.is_empty() {
            return Vec::new();
        }
        let made: HashSet<usize> = change.new.into_iter().collect();
        let kept = self.known.values().enumerate().filter(|(at, _)| !made.contains(at)).map(|(_, records)| records);
        let gone = change.gone.iter().map(|(_, records)| records);
        let mut logged: HashSet<&LogRecord> = kept.chain(gone).flatten().collect();
        new.iter().filter(|record| logged.insert(record)).cloned().collect()
    }

    /// Logs likely mistakes in accepted objects, as `portcullis check` finds them.
    fn lint(&self, objects: &ObjectSet) {
        let before: BTreeSet<usize> =
            self.before.clusters.iter().map(|document| Arc::as_ptr(document).addr()).collect();
        for (index, document) in objects.clusters.iter().enumerate() {
            if before.contains(&Arc::as_ptr(document).addr()) {
                continue;
            }
            let Ok(raw) = parse_cluster(document) else { continue };
            let place = objects.cluster_places.get(index);
            for problem in lint_cluster(&raw, now()) {
                let line = LogRecord::new(false, ("UpstreamCluster", &raw.metadata.name), place, &problem);
                tracing::debug!(
                    file = line.file,
                    line = line.line,
                    name = line.name,
                    field = line.field,
                    hint = line.hint,
                    "{}",
                    line.message
                );
            }
        }
    }
}

/// The place of the document of one of the diagnoses, if it has one.
fn place(objects: &ObjectSet, at: usize) -> Option<&Place> {
    let mut at = at.checked_sub(objects.diagnoses.len())?;
    let kinds = [
        (objects.settings.len(), &objects.settings_places),
        (objects.clusters.len(), &objects.cluster_places),
        (objects.instances.len(), &objects.instance_places),
    ];
    for (count, places) in kinds {
        match at.checked_sub(count) {
            Some(behind) => at = behind,
            None => return places.get(at),
        }
    }
    None
}

fn records_of(diagnosis: &Diagnosis, place: Option<&Place>) -> Vec<LogRecord> {
    let object = (diagnosis.kind.as_str(), diagnosis.name.as_str());
    let line = |is_refused: bool| move |problem: &Problem| LogRecord::new(is_refused, object, place, problem);
    let mut lines: Vec<LogRecord> = diagnosis.problems.iter().map(line(true)).collect();
    lines.extend(diagnosis.cautions.iter().map(line(false)));
    // Files have no problems with fields, only a message.
    let of_object = |is_refused: bool, message: &String| {
        let mut line = line(is_refused)(&Problem::new("", message));
        line.file = diagnosis.at.clone();
        line
    };
    if diagnosis.problems.is_empty() && !diagnosis.message.is_empty() {
        lines.push(of_object(!diagnosis.accepted, &diagnosis.message));
    }
    if diagnosis.cautions.is_empty() {
        lines.extend(diagnosis.warnings.iter().map(|warning| of_object(false, warning)));
    }
    lines
}

impl LogRecord {
    fn new(is_refused: bool, (kind, name): (&str, &str), place: Option<&Place>, problem: &Problem) -> Self {
        let at = place.map(|place| place.spans.find(&problem.path));
        Self {
            is_refused,
            kind: kind.to_owned(),
            name: name.to_owned(),
            file: place.map(|place| place.file.to_string()),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column),
            field: problem.path.clone(),
            hint: problem.hint.clone(),
            message: problem.message.clone(),
        }
    }

    fn log(&self) {
        let Self { kind, name, file, line, column, field, hint, message, .. } = self;
        if self.is_refused {
            tracing::error!(file, line, column, kind, name, field, hint, "refused: {message}");
        } else {
            tracing::warn!(file, line, column, kind, name, field, hint, "{message}");
        }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use portcullis_sources::{Input, read_inputs};

    use super::*;
    use crate::serve::reconciler::Reconciler;

    #[test]
    fn problem_is_logged_with_place_field_and_hint() {
        let text = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: a}\n---\n\
                    apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n\
                    spec:\n  serverz: []\n";
        let set = read_inputs(&[Input::Text { name: "f.yaml".to_owned(), bytes: text.into() }]).unwrap();
        let update = Reconciler::default()
            .reconcile(&set, &std::collections::BTreeSet::new(), std::time::Instant::now())
            .unwrap();
        let found = update.diagnoses.iter().enumerate();
        let found: Vec<LogRecord> = found.flat_map(|(at, diagnosis)| records_of(diagnosis, place(&set, at))).collect();
        let [line] = &found[..] else { panic!("{found:?}") };
        assert_eq!((line.file.as_deref(), line.line, line.column), (Some("f.yaml"), Some(9), Some(3)));
        assert_eq!((line.field.as_str(), line.hint.as_deref()), ("spec.serverz", Some("did you mean servers?")));
        assert!(line.is_refused);
    }

    #[test]
    fn record_is_new_once_and_again_when_it_was_gone() {
        let set = |field: &str| {
            let text = format!(
                "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {{name: a}}\n---\n\
                 apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {{name: a.test}}\n\
                 spec:\n  {field}: []\n"
            );
            read_inputs(&[Input::Text { name: "f.yaml".to_owned(), bytes: text.into() }]).unwrap()
        };
        let (mut log, mut reconciler) = (DiagnosisLog::default(), Reconciler::default());
        let mut news = |set: &ObjectSet| {
            let update = reconciler.reconcile(set, &BTreeSet::new(), std::time::Instant::now()).unwrap();
            log.take(set, &update.diagnoses).into_iter().map(|one| one.field).collect::<Vec<_>>()
        };
        let (one, again, other) = (set("serverz"), set("serverz"), set("serverx"));
        assert_eq!(news(&one), ["spec.serverz"]);
        assert_eq!(news(&one), [""; 0]);
        assert_eq!(news(&again), [""; 0], "the source reads anew");
        assert_eq!(news(&other), ["spec.serverx"]);
        assert_eq!(news(&one), ["spec.serverz"]);
    }
}
