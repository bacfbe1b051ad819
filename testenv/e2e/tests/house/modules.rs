//! Modules of a crate import in one direction.
//!
//! A module is a file. An arrow leads from a module to the one that defines what it names, also through re-exports; between a
//! module and those inside it there is none, because a parent declares and re-exports its children. There is no circle of
//! files, and none of top-level modules, each with all files inside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use portcullis_harness::project_root;

use crate::texts::{Names, files, product, product_files};

/// The modules that each module imports from.
type Graph = BTreeMap<Names, BTreeSet<Names>>;

/// A crate's modules.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Names, Vec<Import>>,
    /// Of each module, the items that it re-exports, and where they are.
    exports: BTreeMap<Names, BTreeMap<String, Names>>,
}

/// A path in a module.
struct Import {
    names: Names,
    is_export: bool,
}

#[test]
fn modules_of_no_crate_import_in_a_circle() {
    let (mut crates, mut circles) = (0, Vec::new());
    for folder in ["filters", "control-plane", "testenv", "fuzz"] {
        for root in files(folder, &["src/lib.rs", "src/main.rs"]) {
            let source = root.parent().unwrap();
            if source.components().any(|part| part.as_os_str() == "target") {
                continue;
            }
            let graph = read_crate(source, root.file_name().unwrap().to_str().unwrap()).graph();
            let name = root.strip_prefix(project_root()).unwrap().display();
            for circle in [circle(&graph), circle(&top_level(&graph))] {
                circles.extend((!circle.is_empty()).then(|| format!("{name}: {}", shown(&circle))));
            }
            crates += 1;
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
    assert!(crates > 15, "{crates}");
}

#[test]
fn module_circle_is_found_through_groups_and_exports() {
    let modules = |texts: &[(&str, &str)]| circle(&graph_of(texts)).len();
    let root = ("", "mod a; mod b; mod c; pub use c::Thing;");
    assert_eq!(
        modules(&[root, ("a", "use crate::{b::{self, X}, d};"), ("b", "fn f() { super::a::f() }"), ("c", "")]),
        2
    );
    assert_eq!(modules(&[root, ("a", "use crate::Thing;"), ("b", ""), ("c", "use super::a::f;")]), 2);
    assert_eq!(modules(&[root, ("a", "fn f() -> crate::b::X {}"), ("b", "// use crate::a;"), ("c", "")]), 0);
    assert_eq!(modules(&[root, ("a", "use self::x::f;"), ("a::x", "use super::f;"), ("b", ""), ("c", "")]), 0);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::a::f;\n}\n";
    assert_eq!(modules(&[root, ("a", "use crate::b::X;"), ("b", tests), ("c", "")]), 0);
}

#[test]
fn module_circle_is_found_between_folders_whose_files_have_none() {
    let files = [
        ("", "mod a; mod b;"),
        ("a", "mod x; mod y;"),
        ("a::x", "use crate::b::f;"),
        ("a::y", "fn g() {}"),
        ("b", "mod z; fn f() {}"),
        ("b::z", "use crate::a::y::g;"),
    ];
    assert_eq!(circle(&graph_of(&files)), Vec::<Names>::new());
    assert_eq!(shown(&circle(&top_level(&graph_of(&files)))), "a -> b");
    assert_eq!(circle(&top_level(&graph_of(&files[..5]))), Vec::<Names>::new());
}

fn graph_of(texts: &[(&str, &str)]) -> Graph {
    let mut read = Crate::default();
    for (name, text) in texts {
        let names = name.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        read.add(names, &product(text));
    }
    read.graph()
}

fn shown(circle: &[Names]) -> String {
    circle.iter().map(|names| names.join("::")).collect::<Vec<_>>().join(" -> ")
}

/// The graph of top-level modules. The crate's root is none of them: it re-exports the others' items.
fn top_level(graph: &Graph) -> Graph {
    let mut modules = Graph::new();
    for (module, targets) in graph {
        let Some(top) = module.first() else { continue };
        let others = targets.iter().filter_map(|target| target.first()).filter(|other| *other != top);
        modules.entry(vec![top.clone()]).or_default().extend(others.map(|other| vec![other.clone()]));
    }
    modules
}

fn read_crate(source: &Path, root: &str) -> Crate {
    let mut read = Crate::default();
    for (names, _, text) in product_files(source, root) {
        read.add(names, &text);
    }
    read
}

impl Crate {
    fn add(&mut self, names: Names, text: &str) {
        let mut imports = Vec::new();
        read_imports(text, &mut imports);
        self.modules.insert(names, imports);
    }

    fn graph(mut self) -> Graph {
        for (module, imports) in &self.modules {
            for import in imports.iter().filter(|import| import.is_export) {
                if let Some(target) = self.absolute(module, &import.names) {
                    let exports = self.exports.entry(module.clone()).or_default();
                    exports.extend(target.last().cloned().map(|item| (item, target)));
                }
            }
        }
        let arrows = |(module, imports): (&Names, &Vec<Import>)| {
            let targets = imports.iter().filter_map(|import| self.defining(&self.absolute(module, &import.names)?, 0));
            let others = targets.filter(|target| !target.starts_with(module) && !module.starts_with(target));
            (module.clone(), others.collect())
        };
        self.modules.iter().map(arrows).collect()
    }

    /// A path from the crate's root. `None` for a path into another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Names> {
        let (first, mut rest) = path.split_first()?;
        let child = || [module, std::slice::from_ref(first)].concat();
        let mut base = match first.as_str() {
            "crate" => Names::new(),
            "self" => module.to_vec(),
            "super" => module[..module.len().checked_sub(1)?].to_vec(),
            _ if self.modules.contains_key(&child()) => child(),
            _ => return None,
        };
        while let Some(further) = rest.split_first().filter(|(next, _)| *next == "super").map(|(_, further)| further) {
            base.pop()?;
            rest = further;
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The module that defines an item.
    fn defining(&self, path: &[String], depth: usize) -> Option<Names> {
        let length = (0..=path.len()).take_while(|length| self.modules.contains_key(&path[..*length])).last()?;
        let (module, rest) = path.split_at(length);
        let export = rest.first().and_then(|item| self.exports.get(module)?.get(item));
        match export {
            Some(target) if depth < 5 => self.defining(target, depth + 1),
            _ => Some(module.to_vec()),
        }
    }
}

/// All paths of two names and more, and those of groups.
fn read_imports(code: &str, imports: &mut Vec<Import>) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = code;
    while let Some(start) = rest.find(is_name) {
        let before = code[..code.len() - rest.len() + start].trim_end();
        let is_export = before.strip_suffix("use").is_some_and(|before| {
            let before = before.trim_end();
            before.ends_with("pub") || before.ends_with("pub(crate)") || before.ends_with("pub(super)")
        });
        rest = &rest[start..];
        let mut found = Vec::new();
        let after = read_tree(rest, &mut Names::new(), &mut found);
        imports.extend(found.into_iter().filter(|names| names.len() > 1).map(|names| Import { names, is_export }));
        rest = after;
    }
}

/// Reads `a::b` or `a::{b, c::d}`; returns what is behind it.
fn read_tree<'t>(mut text: &'t str, names: &mut Names, found: &mut Vec<Names>) -> &'t str {
    let depth = names.len();
    loop {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name != "self" || depth == 0 {
            names.push(name.to_owned());
        }
        let Some(next) = rest.strip_prefix("::") else {
            found.push(names.clone());
            names.truncate(depth);
            return rest;
        };
        if let Some(mut group) = next.strip_prefix('{') {
            loop {
                group = group.trim_start_matches([' ', '\n', ',']);
                if let Some(after) = group.strip_prefix('}') {
                    names.truncate(depth);
                    return after;
                }
                if !group.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                    names.truncate(depth);
                    return group;
                }
                group = read_tree(group, names, found);
                group = group
                    .trim_start()
                    .strip_prefix("as ")
                    .map_or(group, |alias| alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'));
            }
        }
        if !next.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            found.push(names.clone());
            names.truncate(depth);
            return next;
        }
        text = next;
    }
}

/// Modules of one circle, or none.
fn circle(graph: &Graph) -> Vec<Names> {
    let reach = |start: &Names| {
        let (mut seen, mut queue) = (BTreeSet::new(), vec![start]);
        while let Some(module) = queue.pop() {
            for next in graph.get(module).into_iter().flatten() {
                if seen.insert(next) {
                    queue.push(next);
                }
            }
        }
        seen
    };
    let Some(first) = graph.keys().find(|module| reach(module).contains(module)) else { return Vec::new() };
    let reached = reach(first);
    reached.into_iter().filter(|module| reach(module).contains(first)).cloned().collect()
}
