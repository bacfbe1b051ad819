//! `portcullis`: the control plane's one program.

mod activity_report;
mod agent;
mod arguments;
mod backup;
mod boot_time;
mod bootstrap;
mod check;
mod cli;
mod client_ca;
mod completion;
mod control_plane_client;
mod copy;
mod crd;
mod diff;
mod display_text;
mod divided_objects;
#[cfg(test)]
mod documented_commands;
mod explain;
mod freeze;
mod gateway_objects;
mod http_client;
mod init;
mod instance_settings;
mod kubectl_plugin;
mod leader;
mod listen;
mod live;
mod offboard;
mod onboard;
mod output;
mod page_tls;
mod policies;
mod probe;
mod promote;
mod rbac;
mod read_manifests;
mod replay;
mod routed;
mod rule_text;
mod runtime;
mod serve;
mod service_manager;
mod spanning_policies;
mod status;
mod stop_signals;
mod table;
mod tls_client;
mod top;
mod version;

use std::process::ExitCode;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;

use arguments::LogFormat;
use cli::Command;
use kubectl_plugin::CommandLine;

/// The client of Kubernetes logs answers that it cannot read, and answers hold keys. The source and the leader election report
/// its failures.
const SILENCED: [&str; 3] = ["kube_client::client=off", "kube_client::client::tls=warn", "kube_runtime=off"];

/// How this process writes its log.
static LOG_FORMAT: OnceLock<LogFormat> = OnceLock::new();

fn main() -> ExitCode {
    let cli = match kubectl_plugin::command_line() {
        CommandLine::Command(cli) => cli,
        CommandLine::Completed(status) => return status,
    };
    let asked = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let silenced = SILENCED.iter().filter_map(|directive| directive.parse().ok());
    let filter = silenced.fold(asked, EnvFilter::add_directive);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    let format = match &cli.command {
        Command::Serve(serve) => serve.log_format,
        Command::Agent(gateway) => gateway.log_format,
        _ => LogFormat::Text,
    };
    let _ = LOG_FORMAT.set(format);
    match format {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => log.init(),
    }
    match cli.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Agent(arguments) => agent::run(&arguments),
        Command::ExecEnvoy(arguments) => agent::exec_envoy(&arguments),
        Command::Bootstrap(arguments) => bootstrap::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Copy(arguments) => copy::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Promote(arguments) => promote::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Rbac(arguments) => rbac::run(&arguments),
        Command::Onboard(arguments) => onboard::run(&arguments),
        Command::Offboard(arguments) => offboard::run(&arguments),
        Command::Freeze(arguments) => freeze::freeze(&arguments),
        Command::Thaw(arguments) => freeze::thaw(&arguments),
        Command::Crd(arguments) => crd::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Backup(arguments) => backup::back_up(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Completion(arguments) => completion::run(&arguments),
        Command::Man(arguments) => completion::man(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
    }
}

/// Writes to standard output. A reader that went away (`| head`) is no failure of ours.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&error),
        _ => ExitCode::SUCCESS,
    }
}

/// Prints an error with all its causes.
fn fail(error: &dyn std::error::Error) -> ExitCode {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    complain("error", &text);
    ExitCode::FAILURE
}

/// Prints an error or a warning of a command on standard error, whatever the log level is.
fn complain(severity: &str, text: &str) {
    use std::io::Write;
    let json = LOG_FORMAT.get() == Some(&LogFormat::Json);
    let line = if json {
        format!("{}\n", serde_json::json!({"level": severity.to_ascii_uppercase(), "message": text}))
    } else {
        format!("{severity}: {text}\n")
    };
    // One write, so that lines of processes that share a standard error do not mix. An error of the write has no other reader.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
