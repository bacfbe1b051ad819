use std::collections::BTreeMap;

use portcullis_harness::project_root;
use serde_json::Value;

use super::dockerfile::Dockerfile;

/// docker-compose.yml, with its merge keys merged.
pub(super) struct Project {
    pub(super) whole: Value,
    pub(super) services: BTreeMap<String, Service>,
}

/// One service.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) fields: Value,
}

impl Project {
    pub(super) fn read() -> Self {
        let text = with_defaults(&std::fs::read_to_string(project_root().join("docker-compose.yml")).unwrap());
        let mut whole: Value = serde_saphyr::from_str(&text).unwrap();
        merge(&mut whole);
        let services = whole["services"].as_object().unwrap().iter();
        let services = services.map(|(name, fields)| (name.clone(), Service { fields: fields.clone() })).collect();
        Project { whole, services }
    }
}

/// `${NAME:-default}` without the variable.
fn with_defaults(text: &str) -> String {
    let mut parts = text.split("${");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| {
        let (variable, rest) = part.split_once('}').unwrap();
        whole + variable.split_once(":-").unwrap().1 + rest
    })
}

/// Merges the value of `<<` into the object around it, which has precedence (YAML 1.1).
fn merge(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(merge),
        Value::Object(fields) => {
            fields.values_mut().for_each(merge);
            if let Some(Value::Object(more)) = fields.remove("<<") {
                for (name, value) in more {
                    fields.entry(name).or_insert(value);
                }
            }
        }
        _ => {}
    }
}

/// The origin of a container's file or folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A volume of this name.
    Volume(String),
    /// A path of the project.
    Path(String),
}

/// A mount of a service.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) source: Source,
    pub(super) target: String,
    pub(super) read_only: bool,
}

impl Service {
    pub(super) fn texts(&self, field: &str) -> Vec<String> {
        let list = self.fields[field].as_array().into_iter().flatten();
        list.map(|one| one.as_str().unwrap_or_else(|| panic!("{field} holds {one}")).to_owned()).collect()
    }

    /// The profile without which it does not start.
    pub(super) fn profile(&self) -> Option<&str> {
        self.fields["profiles"][0].as_str()
    }

    /// The build target of its image.
    pub(super) fn target(&self) -> &str {
        self.fields["build"]["target"].as_str().unwrap()
    }

    /// Its process: entry point and command.
    pub(super) fn command(&self, dockerfile: &Dockerfile) -> Vec<String> {
        let own = self.texts("entrypoint");
        let entry = if own.is_empty() { dockerfile.entrypoint(self.target()) } else { own };
        [entry, self.texts("command")].concat()
    }

    /// The command of its health check, if it has one.
    pub(super) fn health_check(&self) -> Option<Vec<String>> {
        let test = self.fields["healthcheck"]["test"].as_array()?;
        let words: Vec<String> = test.iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        assert_eq!(words.first().map(String::as_str), Some("CMD"), "no shell is needed");
        Some(words[1..].to_vec())
    }

    /// On whom it waits, and for what.
    pub(super) fn dependencies(&self) -> Vec<(String, String)> {
        let all = self.fields["depends_on"].as_object().into_iter().flatten();
        all.map(|(name, one)| (name.clone(), one["condition"].as_str().unwrap().to_owned())).collect()
    }

    pub(super) fn mounts(&self) -> Vec<Mount> {
        self.texts("volumes").iter().map(|text| mount(text)).collect()
    }

    /// Paths of file systems in memory.
    pub(super) fn temporary(&self) -> Vec<String> {
        self.texts("tmpfs").iter().map(|text| text.split(':').next().unwrap().to_owned()).collect()
    }

    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        let all = self.fields["environment"].as_object().into_iter().flatten();
        all.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
    }
}

fn mount(text: &str) -> Mount {
    let parts: Vec<&str> = text.split(':').collect();
    let source =
        parts[0].strip_prefix("./").map_or(Source::Volume(parts[0].to_owned()), |path| Source::Path(path.into()));
    Mount { source, target: parts[1].to_owned(), read_only: parts.get(2) == Some(&"ro") }
}
