//! Names of tests: a noun of the domain first, verb, condition, at most 60 characters. A quantifier may precede the noun.

use std::fs;

use crate::texts::files;

const MAX_LENGTH: usize = 60;

/// First words that are no noun.
const NO_NOUNS: &str = "a after all an any are as at before by everybody everything for from how however if in is it its nobody none not \
    nothing of on only so some somebody that the these this those to what whatever when where which who whoever with \
    without";

/// The names of the tests in a source text.
fn tests(source: &str) -> Vec<&str> {
    let mut is_test = false;
    let mut names = Vec::new();
    for line in source.lines().map(str::trim) {
        let function = ["fn ", "async fn "].iter().find_map(|start| line.strip_prefix(start));
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(function) = function.filter(|_| is_test) {
            names.extend(function.split(['(', '<']).next());
            is_test = false;
        }
    }
    names
}

fn fault(name: &str) -> Option<String> {
    let first = name.split('_').next().unwrap_or_default();
    if NO_NOUNS.split(' ').any(|word| word == first) {
        return Some(format!("{name}: begin with a noun of the domain, not with {first}"));
    }
    (name.len() > MAX_LENGTH).then(|| format!("{name}: {} characters, at most {MAX_LENGTH}", name.len()))
}

#[test]
fn test_names_begin_with_a_noun_and_are_short() {
    let mut faults = Vec::new();
    let mut count = 0;
    for folder in ["control-plane", "filters", "testenv"] {
        for path in files(folder, &[".rs"]) {
            let source = fs::read_to_string(&path).unwrap();
            let names = tests(&source);
            count += names.len();
            faults.extend(names.into_iter().filter_map(fault).map(|fault| format!("{}: {fault}", path.display())));
        }
    }
    assert!(count > 900, "{count} tests");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn test_name_faults_are_found() {
    let source =
        "#[test]\nfn what_it_does() {}\n#[tokio::test(flavor = \"x\")]\nasync fn server_ends() {}\nfn helper() {}\n";
    assert_eq!(tests(source), ["what_it_does", "server_ends"]);
    assert!(fault("what_it_does").is_some() && fault("server_ends").is_none());
    assert!(fault(&format!("server_{}", "x".repeat(MAX_LENGTH))).is_some());
}
