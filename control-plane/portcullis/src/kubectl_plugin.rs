//! The program as a plugin of kubectl: under the name `kubectl-portcullis` it is `kubectl portcullis`, and under the name
//! `kubectl_complete-portcullis` it answers kubectl's questions about completion.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::cli::Cli;

const PLUGIN: &str = "kubectl-portcullis";
const COMPLETER: &str = "kubectl_complete-portcullis";
const NAME: &str = "kubectl portcullis";
/// Words of kubectl's protocol: the shell completes files, or nothing more.
const FILES: &str = ":0\n";
const NO_FILES: &str = ":4\n";

/// The outcome of reading the command line.
pub(crate) enum CommandLine {
    /// A command to run.
    Command(Box<Cli>),
    /// kubectl's question is answered.
    Completed(ExitCode),
}

/// Reads the command line. A wrong one ends the program.
pub(crate) fn command_line() -> CommandLine {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if program == COMPLETER {
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        return CommandLine::Completed(crate::print(&completion(&words)));
    }
    let command = if program == PLUGIN { plugin() } else { Cli::command() };
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let read = command.try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    CommandLine::Command(Box::new(read.unwrap_or_else(|error| error.exit())))
}

/// The command with the name by which kubectl's users call it.
fn plugin() -> Command {
    renamed(Cli::command()).bin_name(NAME)
}

/// The examples of the help name the plugin.
fn renamed(command: Command) -> Command {
    let about = command.get_long_about().map(|about| {
        let text = about.to_string();
        ["  portcullis ", "| portcullis ", "`portcullis "]
            .iter()
            .fold(text, |text, call| text.replace(call, &call.replace("portcullis", NAME)))
    });
    let command = if let Some(about) = about { command.long_about(about) } else { command };
    command.mut_subcommands(renamed)
}

/// The answer to kubectl: a line for each candidate, with its help behind a tab, and at the end a word about files. `words` are
/// those behind `kubectl portcullis`; the last one is to be completed.
fn completion(words: &[String]) -> String {
    let mut root = Cli::command();
    root.build();
    let Some((last, before)) = words.split_last() else { return NO_FILES.to_owned() };
    let (mut command, mut open_flag) = (&root, None);
    for word in before {
        if open_flag.take().is_some() {
            continue;
        }
        open_flag = flag(command, word);
        if let Some(next) = command.find_subcommand(word) {
            command = next;
        }
    }
    let candidates = match open_flag {
        Some(flag) => values(flag),
        None if last.starts_with('-') => flags(command),
        None => commands(command),
    };
    let is_file = candidates.is_empty() && !last.starts_with('-');
    let fitting: String = candidates.into_iter().filter(|line| line.starts_with(last.as_str())).collect();
    fitting + if is_file { FILES } else { NO_FILES }
}

/// The flag of a word, if its value is the next word.
fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_it = |flag: &&Arg| {
        let long = flag.get_long().is_some_and(|long| word == format!("--{long}"));
        long || flag.get_short().is_some_and(|short| word == format!("-{short}"))
    };
    command.get_arguments().find(is_it).filter(|flag| flag.get_action().takes_values())
}

fn line(word: &str, help: Option<&clap::builder::StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    match help.lines().next() {
        Some(help) => format!("{word}\t{help}\n"),
        None => format!("{word}\n"),
    }
}

fn commands(command: &Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    let mut all: Vec<String> = shown.map(|one| line(one.get_name(), one.get_about())).collect();
    all.extend(command.get_positionals().flat_map(values));
    all
}

fn flags(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
    shown.filter_map(|flag| Some(line(&format!("--{}", flag.get_long()?), flag.get_help()))).collect()
}

fn values(flag: &Arg) -> Vec<String> {
    let all = flag.get_possible_values();
    all.iter().filter(|value| !value.is_hide_set()).map(|value| line(value.get_name(), value.get_help())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(words: &[&str]) -> (Vec<String>, String) {
        let answer = completion(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let mut lines: Vec<String> =
            answer.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
        let directive = lines.pop().unwrap();
        (lines, directive)
    }

    #[test]
    fn completion_knows_commands_flags_and_values() {
        let (commands, directive) = completed(&[""]);
        for name in ["status", "explain", "top", "onboard", "offboard"] {
            assert!(commands.contains(&name.to_owned()), "{commands:?}");
        }
        assert!(!commands.contains(&"man".to_owned()) && directive == ":4");
        assert_eq!(completed(&["st"]).0, ["status"]);
        assert_eq!(completed(&["status", "-o", ""]).0, ["text", "wide", "json"]);
        assert_eq!(completed(&["status", "--output", "w"]).0, ["wide"]);
        assert_eq!(completed(&["onboard", "--name", "a.test", "--upstream-i"]).0, ["--upstream-identity"]);
        assert_eq!(completed(&["check", "-f", ""]), (Vec::new(), ":0".to_owned()), "a file");
        assert_eq!(completed(&["status", "--no-such"]), (Vec::new(), ":4".to_owned()));
        assert_eq!(completed(&["completion", "b"]).0, ["bash"]);
    }

    #[test]
    fn plugin_names_itself_as_kubectl_does() {
        let mut command = plugin();
        command.build();
        let status = command.find_subcommand_mut("status").unwrap();
        assert!(status.render_usage().to_string().contains("kubectl portcullis status"));
        let help = status.render_long_help().to_string();
        assert!(
            help.contains("  kubectl portcullis status prod.example.com") && !help.contains("  portcullis "),
            "{help}"
        );
    }
}
