use portcullis_api::{INSTANCE_KIND, Problem};
use portcullis_instances::{JudgedInstance, Settlement};
use portcullis_translate::{Diagnosis, Reason, Version};
use serde_json::Value;

use super::super::version;

/// The diagnosis of an instance, with what it selects and others have.
pub(super) fn diagnosis(judged: &JudgedInstance, document: &Value, settled: &Settlement) -> Diagnosis {
    let found = judged.findings(settled);
    let reason = match (found.problems.is_empty(), found.is_conflicted) {
        (true, _) => Reason::Accepted,
        (false, true) => Reason::Conflicted,
        (false, false) => Reason::Invalid,
    };
    let mut diagnosis = Diagnosis {
        kind: INSTANCE_KIND.to_owned(),
        name: judged.name.clone(),
        at: None,
        accepted: judged.is_accepted(),
        reason,
        message: texts(&found.problems).join("; "),
        warnings: texts(&judged.warnings),
        problems: found.problems,
        cautions: judged.warnings.clone(),
        shadow: None,
        names: Vec::new(),
        version: Version::default(),
    };
    version::stamp(&mut diagnosis, document);
    diagnosis
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
