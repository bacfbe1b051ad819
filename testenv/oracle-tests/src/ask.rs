use std::io::{Seek, Write};
use std::process::{Command, Stdio};

use portcullis_harness::deps;
use serde_json::Value;

/// The program that answers by kube-apiserver's own packages.
#[derive(Debug)]
pub struct Oracle(std::path::PathBuf);

impl Oracle {
    /// The oracle, or nothing where it was not built, which is said loudly; with `CI=true` that is a failure.
    pub fn or_skip(test: &str) -> Option<Oracle> {
        match deps::or_skip(test, deps::oracle()) {
            Ok(found) => found.map(Oracle),
            Err(missing) => fail(&missing.to_string()),
        }
    }

    /// One answer to each question, in order.
    pub fn ask(&self, questions: &[Value]) -> Vec<Value> {
        let answers = self.run(questions).unwrap_or_else(|error| fail(&error.to_string()));
        assert_eq!(answers.len(), questions.len(), "the oracle answers every question");
        answers
    }

    /// Certificate chains with something odd about each, as questions: all that have a name, and so many pairs of them.
    pub fn chains(&self, pairs: usize, seed: usize) -> Vec<Value> {
        self.print(&format!("-chains={pairs}"), seed)
    }

    /// Issuers of tokens, then so many forged tokens, each with the user whom kube-apiserver sees in it.
    pub fn tokens(&self, count: usize, seed: usize) -> Vec<Value> {
        self.print(&format!("-tokens={count}"), seed)
    }

    fn print(&self, what: &str, seed: usize) -> Vec<Value> {
        let output = Command::new(&self.0).arg(what).arg(format!("-seed={seed}")).output();
        let output = output.unwrap_or_else(|error| fail(&error.to_string()));
        assert!(output.status.success(), "the oracle failed: {}", output.status);
        let lines: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect();
        lines.unwrap_or_else(|error| fail(&error.to_string()))
    }

    fn run(&self, questions: &[Value]) -> std::io::Result<Vec<Value>> {
        let mut input = tempfile()?;
        for question in questions {
            serde_json::to_writer(&mut input, question)?;
            input.write_all(b"\n")?;
        }
        input.rewind()?;
        let output = Command::new(&self.0).stdin(Stdio::from(input)).stderr(Stdio::inherit()).output()?;
        assert!(output.status.success(), "the oracle failed: {}", output.status);
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(|answer| Ok(answer?)).collect()
    }
}

/// Bytes as the oracle reads and writes them: one character each.
pub fn text(bytes: &[u8]) -> Value {
    Value::from(bytes.iter().map(|byte| char::from(*byte)).collect::<String>())
}

/// The bytes of what the oracle wrote.
pub fn bytes(value: &Value) -> Vec<u8> {
    let characters = value.as_str().unwrap_or_default().chars();
    characters.map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')).collect()
}

fn tempfile() -> std::io::Result<std::fs::File> {
    let dir = portcullis_harness::rundir::RunDir::new("oracle").map_err(std::io::Error::other)?;
    std::fs::File::options().create(true).read(true).write(true).truncate(true).open(dir.path().join("questions"))
}

#[allow(clippy::panic, reason = "a test helper whose failure is the test's")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}
