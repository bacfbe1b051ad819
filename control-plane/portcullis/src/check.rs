use std::fmt::Write;
use std::process::ExitCode;

use portcullis_sources::read_once;
use portcullis_translate::Diagnosis;

use crate::cli::Check;
use crate::serve::{Model, ModelError};

pub(crate) fn run(arguments: &Check) -> ExitCode {
    let objects = match read_once(&arguments.config) {
        Ok(objects) => objects,
        Err(error) => return crate::fail(&error),
    };
    let mut model = Model::default();
    let (diagnoses, usable) = match model.update(&objects) {
        Ok(update) => (update.diagnoses, true),
        Err(ModelError::Settings(diagnoses)) => (diagnoses, false),
    };
    let printed = crate::print(&render(&diagnoses));
    if usable && diagnoses.iter().all(|diagnosis| diagnosis.accepted) { printed } else { ExitCode::FAILURE }
}

fn render(diagnoses: &[Diagnosis]) -> String {
    let mut text = String::new();
    for diagnosis in diagnoses {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {}: {}", diagnosis.kind, diagnosis.name, diagnosis.reason);
        for problem in diagnosis.message.split("; ").filter(|problem| !problem.is_empty()) {
            let _ = writeln!(text, "  error: {problem}");
        }
        for warning in &diagnosis.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
    }
    text
}
