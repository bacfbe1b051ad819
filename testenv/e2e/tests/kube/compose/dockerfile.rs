use std::collections::BTreeMap;

use portcullis_harness::project_root;

/// The Dockerfile's stages, in their order.
pub(super) struct Dockerfile {
    /// The defaults of the arguments before the first stage.
    pub(super) arguments: BTreeMap<String, String>,
    pub(super) stages: Vec<Stage>,
}

/// A stage, and what it takes over from the one that it is made from.
#[derive(Default)]
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) from: String,
    /// Instruction and its arguments.
    pub(super) instructions: Vec<(String, String)>,
}

/// `COPY`: from which stage, if any, what, and whither.
pub(super) struct Copy<'a> {
    pub(super) stage: Option<&'a str>,
    pub(super) sources: Vec<&'a str>,
    pub(super) target: &'a str,
}

impl Dockerfile {
    pub(super) fn read() -> Self {
        let text = std::fs::read_to_string(project_root().join("Dockerfile")).unwrap();
        let (mut arguments, mut stages) = (BTreeMap::new(), Vec::<Stage>::new());
        let joined = text.replace("\\\n", " ");
        for line in joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap();
            if word == "FROM" {
                let (from, name) = rest.split_once(" AS ").unwrap_or_else(|| panic!("a stage without a name: {line}"));
                let from = value(from, &arguments);
                stages.push(Stage { name: name.to_owned(), from, ..Stage::default() });
            } else if stages.is_empty() {
                let (name, default) = rest.split_once('=').unwrap();
                assert!(word == "ARG" && arguments.insert(name.to_owned(), default.to_owned()).is_none(), "{line}");
            } else {
                stages.last_mut().unwrap().instructions.push((word.to_owned(), rest.to_owned()));
            }
        }
        Dockerfile { arguments, stages }
    }

    pub(super) fn stage(&self, name: &str) -> &Stage {
        self.stages.iter().find(|stage| stage.name == name).unwrap_or_else(|| panic!("no stage {name}"))
    }

    /// A stage and those that it is made from, itself last.
    pub(super) fn line(&self, name: &str) -> Vec<&Stage> {
        let stage = self.stage(name);
        let is_ours = self.stages.iter().any(|one| one.name == stage.from);
        let mut line = if is_ours { self.line(&stage.from) } else { Vec::new() };
        line.push(stage);
        line
    }

    /// The last word of an instruction in a stage's line.
    pub(super) fn last(&self, stage: &str, instruction: &str) -> Option<&str> {
        let all = self.line(stage).into_iter().flat_map(|stage| &stage.instructions);
        all.filter(|(word, _)| word == instruction).map(|(_, rest)| rest.as_str()).next_back()
    }

    pub(super) fn entrypoint(&self, stage: &str) -> Vec<String> {
        self.last(stage, "ENTRYPOINT").map_or(Vec::new(), |text| serde_json::from_str(text).unwrap())
    }

    /// The files of an image by their path, with their origin; the base image's own files are not known.
    pub(super) fn files(&self, stage: &str) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for copy in self.line(stage).iter().flat_map(|stage| stage.copies()) {
            for source in &copy.sources {
                let base = source.rsplit('/').next().unwrap();
                let target =
                    copy.target.strip_suffix('/').map_or(copy.target.to_owned(), |dir| format!("{dir}/{base}"));
                files.insert(target, (*source).to_owned());
            }
        }
        files
    }
}

impl Stage {
    pub(super) fn copies(&self) -> Vec<Copy<'_>> {
        let copies = self.instructions.iter().filter(|(word, _)| word == "COPY" || word == "ADD");
        copies.map(|(_, rest)| copy(rest)).collect()
    }
}

/// `${NAME}` as its default, everything else as it is.
fn value(text: &str, arguments: &BTreeMap<String, String>) -> String {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.map_or(text.to_owned(), |name| arguments.get(name).unwrap_or_else(|| panic!("no argument {name}")).clone())
}

fn copy(rest: &str) -> Copy<'_> {
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    let stage = words[0].strip_prefix("--from=");
    if stage.is_some() {
        words.remove(0);
    }
    let target = words.pop().unwrap();
    Copy { stage, sources: words, target }
}
