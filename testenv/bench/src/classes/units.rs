//! The source file, library or class that a function belongs to, in an executable without symbols.
//!
//! Certain are exported names, places in tables of virtual functions, and the path of a source file that a function hands to a
//! log line or an assertion. A function without either is taken for one of the source file or class to which the nearest known
//! functions on both sides belong, because linkers put the functions of a file together; where the sides differ, of the library
//! that the nearest classes of others are of, if it is one; else it is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::executable::Executable;
use super::vtables::{self, Virtual};
use super::{mangled, paths};

/// The unit of code that the linker keeps once for several classes.
const SHARED: &str = "equal code of several classes";

/// Knowledge of an executable's functions.
pub(crate) struct Units {
    virtuals: HashMap<u64, Virtual>,
    names: HashMap<u64, String>,
    /// By the paths and texts that a function uses.
    by_text: BTreeMap<u64, String>,
    /// These, and functions of Envoy's classes.
    by_class: BTreeMap<u64, String>,
    /// Functions of the classes of others, with the outermost namespace.
    by_namespace: BTreeMap<u64, String>,
    /// The source files of Envoy's classes.
    files: HashMap<String, String>,
    /// Sections whose code is all of one unit.
    sections: Vec<((u64, u64), &'static str)>,
}

impl Units {
    /// Looks at all code once.
    pub(crate) fn new(executable: &Executable) -> Self {
        let (virtuals, by_text) = (vtables::functions(executable), texts(executable));
        let files = files(&virtuals, &by_text);
        let names = executable.exported.iter().map(|(name, address)| (*address, name.clone())).collect();
        let by_namespace = namespaces(&virtuals);
        let by_class = by_text.clone();
        let mut units = Units { virtuals, names, by_class, by_namespace, by_text, files, sections: Vec::new() };
        let sections = paths::SECTIONS.into_iter().filter_map(|(name, unit)| Some((executable.code(name)?, unit)));
        units.sections = sections.collect();
        let of_class = units.virtuals.iter().filter(|(_, found)| found.sharers == 1);
        let of_class = of_class.filter_map(|(address, found)| Some((*address, mangled::of_envoy(&found.class)?)));
        let of_class: Vec<(u64, String)> =
            of_class.filter(|(_, class)| !class.contains('<')).map(|(at, class)| (at, units.file(&class))).collect();
        for (address, unit) in of_class {
            units.by_class.entry(address).or_insert(unit);
        }
        units
    }

    /// The unit of a function, if it is known.
    pub(crate) fn unit(&self, function: u64) -> Option<String> {
        let holds = |((start, end), _): &&((u64, u64), &str)| (*start..*end).contains(&function);
        if let Some((_, unit)) = self.sections.iter().find(holds) {
            return Some((*unit).to_owned());
        }
        if let Some(unit) = self.by_text.get(&function) {
            return Some(unit.clone());
        }
        match self.virtuals.get(&function) {
            Some(found) if found.sharers > 1 => return Some(SHARED.to_owned()),
            Some(found) => match mangled::of_envoy(&found.class) {
                Some(class) => return Some(self.file(&class)),
                None if !found.class.starts_with("NSt") => return mangled::path(&found.class),
                None => {}
            },
            None => {}
        }
        let nearest = between(&self.by_text, function).or_else(|| between(&self.by_class, function));
        nearest.or_else(|| between(&self.by_namespace, function)).map(str::to_owned)
    }

    /// The name of a function: exported, or its place in a class; its address otherwise.
    pub(crate) fn function(&self, function: u64) -> String {
        if let Some(name) = self.names.get(&function) {
            return name.clone();
        }
        let Some(found) = self.virtuals.get(&function) else { return format!("{function:#x}") };
        let class = mangled::path(&found.class).unwrap_or_default();
        let others = if found.sharers > 1 { format!(" and {} classes more", found.sharers - 1) } else { String::new() };
        let base = if found.base > 0 { format!(" of the base at {}", found.base) } else { String::new() };
        match mangled::of_envoy(&found.class).filter(|of| *of != class) {
            Some(of) => format!("{class} with {of}, function {}{base}{others}", found.slot),
            None => format!("{class}, function {}{base}{others}", found.slot),
        }
    }

    /// The file of a class or of the class around it; itself if none is known.
    fn file(&self, class: &str) -> String {
        let around = std::iter::successors(Some(class), |class| class.rsplit_once("::").map(|(outer, _)| outer));
        let file = around.into_iter().find_map(|class| self.files.get(class));
        file.cloned().unwrap_or_else(|| class.to_owned())
    }
}

/// The unit on both sides of a function, if it is the same.
fn between(known: &BTreeMap<u64, String>, function: u64) -> Option<&str> {
    let (_, before) = known.range(..function).next_back()?;
    let (_, after) = known.range(function + 1..).next()?;
    (before == after).then_some(before)
}

/// Functions that use paths of exactly one unit.
fn texts(executable: &Executable) -> BTreeMap<u64, String> {
    let mut found: HashMap<u64, BTreeSet<String>> = HashMap::new();
    for (place, target) in executable.addresses_taken() {
        if let Some(unit) = executable.text(target).and_then(paths::unit) {
            found.entry(executable.function(place)).or_default().insert(unit.to_owned());
        }
    }
    let single = found.into_iter().filter(|(_, units)| units.len() == 1);
    single.filter_map(|(function, units)| Some((function, units.into_iter().next()?))).collect()
}

/// The outermost namespaces of classes; of Google's the second one, too. The standard library's classes are part of any.
fn namespaces(virtuals: &HashMap<u64, Virtual>) -> BTreeMap<u64, String> {
    let own = virtuals.iter().filter(|(_, found)| found.sharers == 1 && mangled::of_envoy(&found.class).is_none());
    let paths = own.filter_map(|(address, found)| Some((*address, mangled::path(&found.class)?)));
    let named = paths.filter_map(|(address, path)| {
        let (outer, rest) = path.split_once("::").filter(|(outer, _)| *outer != "std")?;
        let inner = rest.split_once("::").filter(|_| outer == "google").map(|(inner, _)| format!("::{inner}"));
        Some((address, format!("{outer}{}", inner.unwrap_or_default())))
    });
    named.collect()
}

/// The source file of each of Envoy's classes: the one that most of its functions with a path are in.
fn files(virtuals: &HashMap<u64, Virtual>, by_text: &BTreeMap<u64, String>) -> HashMap<String, String> {
    let mut counts: HashMap<String, BTreeMap<&str, usize>> = HashMap::new();
    for (address, found) in virtuals.iter().filter(|(_, found)| found.sharers == 1) {
        let unit = by_text.get(address).map(String::as_str).or_else(|| between(by_text, *address));
        let class = mangled::path(&found.class).filter(|class| class.starts_with("Envoy::") && !class.contains('<'));
        if let (Some(unit), Some(class)) = (unit, class) {
            *counts.entry(class).or_default().entry(unit).or_default() += 1;
        }
    }
    let most = counts.into_iter().filter_map(|(class, units)| {
        let (unit, _) = units.into_iter().max_by_key(|(_, count)| *count)?;
        Some((class, unit.to_owned()))
    });
    most.collect()
}

#[cfg(test)]
mod tests {
    use super::super::vtables::Virtual;
    use super::{between, namespaces};

    #[test]
    fn classes_of_others_are_known_by_their_namespaces() {
        let classes =
            [(1, "N6google8protobuf2io7ZeroCopE"), (2, "N3re23RE2E"), (3, "NSt3__16vectorE"), (4, "N5Envoy1XE")];
        let found = |class: &str| Virtual { class: class.to_owned(), slot: 0, base: 0, sharers: 1 };
        let found = namespaces(&classes.map(|(address, class)| (address, found(class))).into());
        let found: Vec<_> = found.iter().map(|(address, name)| (*address, name.as_str())).collect();
        assert_eq!(found, [(1, "google::protobuf"), (2, "re2")]);
    }

    #[test]
    fn unknown_function_is_of_the_unit_on_both_sides() {
        let known = [(10, "a.cc"), (20, "a.cc"), (30, "b.cc")].map(|(at, unit)| (at, unit.to_owned())).into();
        assert_eq!(between(&known, 15), Some("a.cc"));
        assert_eq!(between(&known, 25), None);
        assert_eq!(between(&known, 5), None);
        assert_eq!(between(&known, 35), None);
    }
}
