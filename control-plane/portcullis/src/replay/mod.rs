//! `portcullis replay`: requests of an access log, judged by other objects.

mod arguments;
mod bounds;
mod input;
mod judge;
mod outcome;
mod output;
mod record;
mod tally;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use portcullis_core::{CompileError, Gateway};
use rustls_pki_types::UnixTime;

pub(crate) use arguments::{Replay, ReplayOutput};
use input::LogLines;
use judge::{LineVerdict, ReplayedCluster};
use record::LogRecord;
use tally::Tally;

use crate::display_text::listed;
use crate::explain::{Environment, EnvironmentError, ObjectFiles, ServedCluster};

/// The exit status for what cannot be read, as `kubectl diff` has it.
pub(crate) const FAILED: u8 = 2;

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error(transparent)]
    Objects(#[from] EnvironmentError),
    #[error("UpstreamCluster {0}")]
    Compile(String, #[source] CompileError),
    #[error("there is no UpstreamCluster {0} among the objects")]
    NoCluster(String),
    #[error("there is no log: give --log FILE, or the log on standard input")]
    NoLog,
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("no line of the log could be judged")]
    NothingJudged,
    #[error("cannot print the report")]
    Print(#[from] crate::output::OutputError),
}

/// The objects that judge.
struct Judges {
    gateway: Gateway,
    /// By name; `None` for those that are left out.
    clusters: HashMap<String, Option<ReplayedCluster>>,
    /// Names of those whose connections are passed on.
    passed_on: HashSet<String>,
    /// By whose settings clusters are judged, and policies by which no line is.
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Replay) -> ExitCode {
    match replay(arguments) {
        Ok(exit) => exit,
        Err(error) => {
            crate::fail(&error);
            ExitCode::from(FAILED)
        }
    }
}

fn replay(arguments: &Replay) -> Result<ExitCode, ReplayError> {
    let judges = Judges::read(arguments)?;
    let mut tally = Tally::default();
    let now = UnixTime::now().as_secs();
    let mut lines = LogLines::open(&arguments.logs)?;
    while let Some(line) = lines.next(&tally)? {
        let Some(record) = line.and_then(LogRecord::read) else {
            tally.unreadable();
            continue;
        };
        match judges.clusters.get(&*record.cluster) {
            Some(Some(_)) if judges.passed_on.contains(&*record.cluster) => {
                tally
                    .count(&record, LineVerdict::Unknown("the server, to which connections are passed on, not judged"));
            }
            Some(Some(cluster)) => tally.count(&record, cluster.judge(&judges.gateway, &record, now)),
            found => tally.of_other_cluster(&record, found.is_some()),
        }
    }
    let notes = judges.notes(&tally);
    let text = match arguments.output {
        ReplayOutput::Text => output::text(&tally, &notes, arguments.show),
        ReplayOutput::Json => output::json(&tally, &notes, arguments.show)?,
    };
    let printed = crate::print(&text);
    if tally.judged() == 0 && tally.undecided() == 0 {
        return Err(ReplayError::NothingJudged);
    }
    let is_same = tally.different == 0 && tally.undecided() == 0;
    Ok(if is_same { printed } else { ExitCode::from(1) })
}

impl Judges {
    fn read(arguments: &Replay) -> Result<Self, ReplayError> {
        let files = ObjectFiles {
            paths: &arguments.files,
            namespace: &arguments.namespace,
            settings_name: arguments.settings_name.as_deref(),
        };
        let environment = Environment::read(files, false)?;
        for problem in environment.problems() {
            crate::complain("warning", problem);
        }
        let is_wanted = |name: &String| arguments.clusters.is_empty() || arguments.clusters.contains(name);
        let wanted = || environment.clusters.iter().filter(|served| is_wanted(&served.name));
        let of_settings = wanted().filter_map(settings_note);
        let of_doors = wanted().filter_map(|served| doors_note(&served.name, &environment));
        let notes = of_settings.chain(of_doors).collect();
        let (mut clusters, mut passed_on) = (HashMap::new(), HashSet::new());
        for served in environment.clusters {
            if served.is_passed_on {
                passed_on.insert(served.name.clone());
            }
            let cluster = is_wanted(&served.name).then(|| ReplayedCluster::new(served.config)).transpose();
            let cluster = cluster.map_err(|error| ReplayError::Compile(served.name.clone(), error))?;
            clusters.insert(served.name, cluster);
        }
        match arguments.clusters.iter().find(|name| !clusters.contains_key(*name)) {
            Some(name) => Err(ReplayError::NoCluster(name.clone())),
            None => Ok(Judges { gateway: environment.gateway, clusters, passed_on, notes }),
        }
    }

    /// Assumptions of the report.
    fn notes(&self, tally: &Tally) -> Vec<String> {
        let mut clusters: Vec<_> = self.clusters.iter().filter_map(|(name, one)| Some((name, one.as_ref()?))).collect();
        clusters.sort_by_key(|(name, _)| *name);
        let of_clusters = clusters.into_iter().flat_map(|(name, cluster)| cluster.notes(name));
        self.notes.iter().cloned().chain(of_clusters).chain(impersonation_note(tally.impersonated)).collect()
    }
}

/// The settings by which the lines of a cluster are judged, if they are an instance's own.
fn settings_note(served: &ServedCluster) -> Option<String> {
    let instance = served.instance.as_ref()?;
    let (name, settings) = (instance.name.as_ref()?, instance.settings.as_ref()?);
    Some(format!("{}: judged by the GatewaySettings {settings} of Instance {name}", served.name))
}

/// Policies by which no line is judged, though the gateway judges requests by them that come by a route.
fn doors_note(cluster: &str, environment: &Environment) -> Option<String> {
    let policies = environment.policies_at_doors(cluster);
    (!policies.is_empty()).then(|| {
        format!(
            "{cluster}: policies at Gateways, listeners and HTTPRoutes are not judged, because the log does not say by which of \
             them a request came: {}",
            listed(policies)
        )
    })
}

/// Parts of impersonated requests that the log does not have.
fn impersonation_note(lines: u64) -> Option<String> {
    (lines > 0).then(|| {
        format!(
            "{lines} lines are of impersonated users: the log has their names, and not the groups, uid and extras that were \
             asked for; they are unknown where a group could decide, and the right to impersonate is taken from the log"
        )
    })
}

#[cfg(test)]
mod tests;
