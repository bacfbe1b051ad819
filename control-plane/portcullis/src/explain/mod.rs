//! `portcullis explain`: the gateway's treatment of a request, by the filter's own code.

mod answer;
mod arguments;
mod attached;
mod call;
mod certificate;
mod environment;
mod error;
mod evaluate;
mod local_token;
mod object_files;
pub(crate) mod paste;
mod request;
mod served_settings;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use portcullis_core::identity::UserInfo;

pub(crate) use answer::{DispatchAnswer, Explanation, RequestInfoAnswer, ShadowAnswer};
pub(crate) use arguments::Explain;
use arguments::ExplainCommand;
pub(crate) use attached::PolicyAnswer;
pub(crate) use call::ExplainCall;
pub(crate) use environment::{EmptyState, Environment, ExplainedObjects, ServedCluster, name_of};
pub(crate) use error::EnvironmentError;
pub(crate) use object_files::{ObjectFiles, ReadObjects};
use paste::PastedRequest;
use request::{Named, Request};
pub(crate) use served_settings::{ClusterSettings, InstanceAnswer, ServedSettings};

/// Explains a request to one of the clusters. `instances` are those that it belongs to, if a control plane knows them. The second part
/// is why the objects would not be served as they are.
pub(crate) fn explain(
    objects: &ExplainedObjects,
    (cluster, instances): (&str, Option<&[String]>),
    request: &PastedRequest,
    user: Option<UserInfo>,
) -> Result<(Explanation, Vec<String>), EnvironmentError> {
    let environment = Environment::of_cluster(objects, cluster, instances)?;
    let answer = environment.explain(&Request::of_user(request, user));
    Ok((answer, environment.problems().to_vec()))
}

pub(crate) fn run(arguments: &Explain) -> ExitCode {
    if let Some(ExplainCommand::Certificate(arguments)) = &arguments.command {
        return certificate::run(arguments);
    }
    let files = ObjectFiles {
        paths: &arguments.files,
        namespace: &arguments.namespace,
        settings_name: arguments.settings_name.as_deref(),
    };
    let environment = match Environment::read(files, arguments.shadow) {
        Ok(environment) => environment,
        Err(error) => return crate::fail(&error),
    };
    for problem in environment.problems() {
        crate::complain("warning", problem);
    }
    if arguments.batch {
        return batch(&environment).unwrap_or_else(|error| crate::fail(&error));
    }
    let request = match Request::from_arguments(arguments) {
        Ok(request) => request,
        Err(message) => {
            crate::complain("error", &message);
            return ExitCode::FAILURE;
        }
    };
    let answer = environment.explain(&request);
    let failed = answer.error.is_some();
    let printed = match arguments.output.text(&answer) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    };
    if failed { ExitCode::FAILURE } else { printed }
}

/// Answers each line of standard input by one line, in order.
fn batch(environment: &Environment) -> io::Result<ExitCode> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut exit = ExitCode::SUCCESS;
    for (number, line) in (1..).zip(io::stdin().lock().split(b'\n')) {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = answer_line(environment, &line, number);
        if answer.error.is_some() || answer.differences.as_ref().is_some_and(|found| !found.is_empty()) {
            exit = ExitCode::FAILURE;
        }
        serde_json::to_writer(&mut output, &answer)?;
        match output.write_all(b"\n") {
            // A reader that went away is no failure of ours.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(exit),
            written => written?,
        }
    }
    output.flush()?;
    Ok(exit)
}

fn answer_line(environment: &Environment, line: &[u8], number: usize) -> Explanation {
    let request: Request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            crate::complain("error", &format!("line {number}: is not a request: {error}"));
            let id = serde_json::from_slice(line).map(|named: Named| named.id).unwrap_or_default();
            return Explanation { id, ..Explanation::failed(format!("line {number} is not a request: {error}")) };
        }
    };
    for name in request.unknown.keys() {
        crate::complain("warning", &format!("line {number}: {name} is not known and ignored"));
    }
    let mut answer = environment.explain(&request);
    if let Some(expected) = &request.expect {
        let found = answer::differences(expected, &answer);
        for difference in &found {
            crate::complain("error", &format!("line {number}, id {}: {difference}", answer.id));
        }
        answer.differences = Some(found);
    }
    answer
}
