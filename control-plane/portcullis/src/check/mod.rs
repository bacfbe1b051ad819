//! `portcullis check`: what is wrong with objects, and where.

mod assumed;
mod checked;
mod closures;
mod gateway_api;
mod instances;
mod output;
mod policies;
mod report;
mod routed_clusters;
mod upstreams;

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use portcullis_sources::{Input, InputError, MAX_FILE, ObjectSet, Root, read_inputs, read_references};

use crate::arguments::{Check, CheckOutput};

/// A check of nothing is an error: its caller relies on something being checked.
#[derive(Debug, thiserror::Error)]
#[error("there is no UpstreamCluster, no GatewaySettings, no Instance, no policy, no KubernetesUpstream and no object of the Gateway API to check{}", if *deeper { "" } else { " (hint: -R reads directories below, too)" })]
struct NoObjects {
    deeper: bool,
}

pub(crate) fn run(arguments: &Check) -> ExitCode {
    let objects = match read(arguments) {
        Ok(objects) => objects,
        Err(error) => return crate::fail(&error),
    };
    let is_ours = !(objects.clusters.is_empty()
        && objects.settings.is_empty()
        && objects.instances.is_empty()
        && objects.policies.is_empty());
    let is_empty = !is_ours && !gateway_api::has_any(&objects);
    let report = report::check_objects(&objects, (&arguments.namespace, arguments.settings_name.as_deref()), now());
    let printed = crate::print(&match arguments.output {
        CheckOutput::Text => output::text(&report),
        CheckOutput::Json => output::json(&report),
    });
    if is_empty && report.errors() == 0 {
        return crate::fail(&NoObjects { deeper: arguments.recursive });
    }
    let is_good = report.errors() == 0 && !(arguments.strict && report.warnings() > 0);
    if is_good { printed } else { ExitCode::FAILURE }
}

fn read(arguments: &Check) -> Result<ObjectSet, InputError> {
    let all = arguments.files.iter().chain(&arguments.directory);
    let inputs: Result<Vec<Input>, _> = all.map(|path| input(path, arguments.recursive)).collect();
    let mut objects = read_inputs(&inputs?)?;
    if let Some(root) = &arguments.references_root {
        read_references(&mut objects, &Root::new(root));
    }
    objects.divide_settings(arguments.settings_name.as_deref());
    Ok(objects)
}

fn input(path: &Path, recursive: bool) -> Result<Input, InputError> {
    if path != Path::new("-") {
        let path = path.to_owned();
        return Ok(if recursive { Input::Tree(path) } else { Input::Path(path) });
    }
    let mut bytes = Vec::new();
    let read = io::stdin().take(MAX_FILE + 1).read_to_end(&mut bytes);
    let read = read.and_then(|length| match u64::try_from(length) {
        Ok(length) if length <= MAX_FILE => Ok(()),
        _ => Err(io::Error::other("it is larger than 16 MiB")),
    });
    let name = "<stdin>";
    read.map_err(|source| InputError::Read { path: name.into(), source })?;
    Ok(Input::Text { name: name.to_owned(), bytes })
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
