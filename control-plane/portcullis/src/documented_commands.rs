//! Command lines of the documents and of the help are read by this program as they are written there: a flag that is renamed or
//! gone is found in them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, Parser};

use crate::cli::Cli;

/// Pages for readers. Decision records are left out: they have the flags of their day.
const PAGES: [&str; 7] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "deploy", "envoy", "examples"];
const DECISIONS: &str = "decisions";
/// The sign for what a reader adds.
const ELLIPSES: [&str; 2] = ["…", "..."];
/// Words in its place, of which the flag before it takes one.
const VALUES: [&str; 5] = ["192.0.2.1:443", "http://192.0.2.1", "edge/edge", "1s", "Impersonate"];
/// Words before a program.
const PREFIXES: [&str; 7] = ["$", "sudo", "kubectl", "do", "then", "if", "!"];

/// A command line in a text.
#[derive(Debug)]
struct Documented {
    place: String,
    words: Vec<String>,
    /// Whether it is a line of code. One in a sentence may lack arguments.
    is_code: bool,
}

/// The simple commands of a line of shell, each as its words. A substitution is one, too.
fn shell_commands(line: &str) -> Vec<Vec<String>> {
    let Some((head, rest)) = line.split_once("$(") else { return simple_commands(line) };
    let (mut depth, mut end) = (1_usize, rest.len());
    for (at, letter) in rest.char_indices() {
        depth = match letter {
            '(' => depth.saturating_add(1),
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        if depth == 0 {
            end = at;
            break;
        }
    }
    let (inner, tail) = rest.split_at(end);
    let around = format!("{head}SUBSTITUTED{}", tail.strip_prefix(')').unwrap_or(tail));
    [shell_commands(&around), shell_commands(inner)].concat()
}

fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut word, mut quote) = (vec![Vec::new()], None::<String>, None);
    for letter in line.chars() {
        let words = commands.last_mut().unwrap();
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '(' | ')') => {
                words.extend(word.take());
                commands.push(Vec::new());
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    commands.last_mut().unwrap().extend(word);
    commands.into_iter().map(without_redirections).collect()
}

fn without_redirections(words: Vec<String>) -> Vec<String> {
    let mut words = words.into_iter();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let target = word.trim_start_matches(|letter: char| letter.is_ascii_digit()).strip_prefix(['<', '>']);
        match target {
            Some("" | ">") => drop(words.next()),
            Some(_) => {}
            None => kept.push(word),
        }
    }
    kept
}

/// The command line of this program, with its name first, if the command is one.
fn of_this_program(mut words: Vec<String>) -> Option<Vec<String>> {
    let is_before = |word: &String| PREFIXES.contains(&word.as_str()) || word.contains('=');
    let start = words.iter().position(|word| !is_before(word))?;
    let mut words = words.split_off(start);
    let program = words.first_mut()?;
    let is_it = Path::new(program).file_name().is_some_and(|name| name == "portcullis");
    *program = "portcullis".to_owned();
    (is_it && words.len() > 1).then_some(words)
}

/// Reads a text line by line, with its state between two lines.
struct PageReader<'a> {
    name: &'a str,
    indent: &'a str,
    found: Vec<Documented>,
    /// The language of the fence, which may be empty.
    fence: Option<String>,
    /// Whether lines of this code begin with the sign of a shell, so that the others are output.
    is_session: bool,
    /// Lines before this one that end in a backslash.
    continued: String,
    sentence: String,
}

impl PageReader<'_> {
    fn line(&mut self, number: usize, line: &str) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            self.fence = self.fence.is_none().then(|| language.to_owned());
            self.is_session = false;
        } else if self.fence.is_some() || line.starts_with(self.indent) || !self.continued.is_empty() {
            self.code(number, line);
        } else if line.trim().is_empty() {
            for span in std::mem::take(&mut self.sentence).split('`').skip(1).step_by(2) {
                self.add(number, span, false);
            }
        } else {
            self.is_session = false;
            self.sentence += &format!("{line} ");
        }
    }

    fn code(&mut self, number: usize, line: &str) {
        let is_prompt = line.trim_start().starts_with("$ ");
        self.is_session |= is_prompt;
        let is_output = self.is_session && !is_prompt && self.continued.is_empty();
        if is_output || self.fence.as_deref() == Some("mermaid") {
            return;
        }
        self.continued += line.strip_suffix('\\').unwrap_or(line);
        if !line.ends_with('\\') {
            let whole = std::mem::take(&mut self.continued);
            self.add(number, &whole, true);
        }
    }

    fn add(&mut self, number: usize, line: &str, is_code: bool) {
        for words in shell_commands(line).into_iter().filter_map(of_this_program) {
            self.found.push(Documented { place: format!("{}:{number}", self.name), words, is_code });
        }
    }
}

/// The command lines of a text in which code is fenced, or indented by so many columns.
fn documented(name: &str, text: &str, indent: &str) -> Vec<Documented> {
    let (found, fence, is_session) = (Vec::new(), None, false);
    let (continued, sentence) = (String::new(), String::new());
    let mut reader = PageReader { name, indent, found, fence, is_session, continued, sentence };
    for (line, number) in text.lines().chain([""]).zip(1..) {
        reader.line(number, line);
    }
    reader.found
}

/// A word of a reader's own in the place of one in capitals.
fn filled(word: &str) -> String {
    let is_placeholder = word.contains(char::is_uppercase) && !word.contains(|letter: char| letter.is_lowercase());
    match word {
        "SHELL" => "bash".to_owned(),
        _ if is_placeholder && !word.starts_with('-') => word.to_lowercase(),
        _ => word.to_owned(),
    }
}

/// Readings of a command line: with a value for each flag that an ellipsis follows, and without the other ellipses. A flag at the
/// end of a sentence's command line is read with a value, too.
fn readings(documented: &Documented) -> Vec<Vec<String>> {
    let end = (!documented.is_code).then(|| ELLIPSES[0].to_owned());
    let mut readings = vec![Vec::new()];
    for word in documented.words.iter().cloned().chain(end) {
        let is_ellipsis = ELLIPSES.contains(&word.as_str());
        let before = readings.first().and_then(|reading: &Vec<String>| reading.last());
        let is_value = is_ellipsis && before.is_some_and(|last| last.starts_with('-'));
        if is_value {
            let with =
                |value: &&str| readings.iter().map(|reading| [&reading[..], &[(*value).to_owned()]].concat()).collect();
            let valued: Vec<Vec<_>> = VALUES.iter().map(with).collect();
            readings.extend(valued.concat());
        } else if !is_ellipsis {
            readings.iter_mut().for_each(|reading| reading.push(filled(&word)));
        }
    }
    readings
}

/// The error of a command line that this program does not take.
fn fault(documented: &Documented) -> Option<String> {
    let is_whole = documented.is_code && !documented.words.iter().any(|word| ELLIPSES.contains(&word.as_str()));
    let mut last = None;
    for words in readings(documented) {
        let error = Cli::try_parse_from(&words).err()?;
        let is_good = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::MissingRequiredArgument => !is_whole,
            _ => false,
        };
        if is_good {
            return None;
        }
        last = Some(error.to_string().lines().take(2).collect::<Vec<_>>().join(" "));
    }
    last.map(|error| format!("{}: {}: {error}", documented.place, documented.words.join(" ")))
}

fn pages(path: PathBuf, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(&path).unwrap().flatten().filter(|entry| entry.file_name() != DECISIONS) {
            pages(entry.path(), found);
        }
    } else if path.extension().is_some_and(|ending| ending == "md") {
        found.push(path);
    }
}

/// The help of a command and of those below it.
fn helps(command: &Command, found: &mut Vec<(String, String)>) {
    let about = command.get_long_about().or_else(|| command.get_about());
    found.extend(about.map(|about| (format!("help of {}", command.get_name()), about.to_string())));
    let arguments = command.get_arguments();
    found.extend(arguments.filter_map(|argument| {
        let help = argument.get_long_help().or_else(|| argument.get_help())?;
        Some((format!("help of {} {}", command.get_name(), argument.get_id()), help.to_string()))
    }));
    command.get_subcommands().for_each(|one| helps(one, found));
}

fn assert_taken(all: &[Documented], at_least: usize) {
    let faults: Vec<String> = all.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), all.len(), faults.join("\n"));
    let lines = all.iter().filter(|one| one.is_code).count();
    assert!(lines >= at_least, "{lines} lines of code are found");
}

#[test]
fn command_lines_of_documents_are_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    PAGES.iter().for_each(|page| pages(root.join(page), &mut found));
    let mut all = Vec::new();
    for page in found {
        let name = page.strip_prefix(&root).unwrap().display().to_string();
        all.extend(documented(&name, &fs::read_to_string(&page).unwrap(), "    "));
    }
    assert_taken(&all, 60);
}

#[test]
fn command_lines_of_the_help_are_taken() {
    let mut found = Vec::new();
    helps(&Cli::command(), &mut found);
    let all: Vec<Documented> = found.iter().flat_map(|(name, text)| documented(name, text, "  ")).collect();
    assert_taken(&all, 40);
}

#[test]
fn command_lines_are_found_in_shell_and_in_sentences() {
    let page = r#"Use `portcullis top` or
`helm install portcullis x`.

```console
$ portcullis check -f a.yaml | jq '.[] | x'  # it's
portcullis 1
```

    kubectl patch x -p "$(kubectl portcullis promote (a))" && A=b portcullis \
        status > out 2>&1 <in
    for a in b; do target/debug/portcullis man a"b 'c" >> x; done
    portcullis
```mermaid
portcullis --> x
```
"#;
    let found = documented("page", page, "    ");
    let found: Vec<String> =
        found.iter().map(|one| format!("{} {} {}", one.place, one.is_code, one.words.join("_"))).collect();
    let expected = [
        "page:3 false portcullis_top",
        "page:5 true portcullis_check_-f_a.yaml",
        "page:10 true portcullis_status",
        "page:10 true portcullis_promote",
        "page:11 true portcullis_man_ab 'c",
    ];
    assert_eq!(found, expected);
}

#[test]
fn command_line_with_a_wrong_argument_is_found() {
    let table = [
        ("portcullis status", true, true),
        ("portcullis no-such", true, false),
        ("portcullis status --no-such", true, false),
        ("portcullis status --no-such", false, false),
        ("portcullis status -o no-such …", true, false),
        ("portcullis bootstrap --zone", true, false),
        ("portcullis bootstrap --zone", false, true),
        ("portcullis completion SHELL", true, true),
        ("portcullis agent --gateway NAMESPACE/NAME --xds-socket x", true, true),
        ("portcullis serve", true, false),
        ("portcullis serve", false, true),
        ("portcullis serve …", true, true),
        ("portcullis bootstrap --node-id a --xds-address …", true, true),
        ("portcullis bootstrap --node-id a --no-such …", true, false),
        ("portcullis status --help", true, true),
    ];
    for (line, is_code, is_taken) in table {
        let words = line.split(' ').map(str::to_owned).collect();
        let found = fault(&Documented { place: String::new(), words, is_code });
        assert_eq!(found.is_none(), is_taken, "{line} {is_code}: {found:?}");
    }
}
