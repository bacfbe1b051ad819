use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use portcullis_harness::project_root;

/// The files below a path of the project that have one of these endings; a path of a file is that file.
pub(crate) fn files(path: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&project_root().join(path), endings, &mut found);
    found.sort();
    found
}

fn collect(path: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), endings, found);
        }
    } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
        found.push(path.to_owned());
    }
}

/// The names on the way from a crate's root to a module or an item.
pub(crate) type Names = Vec<String>;

/// The product files of a crate, each with its module and its code. `root` is the root's file name.
pub(crate) fn product_files(source: &Path, root: &str) -> Vec<(Names, PathBuf, String)> {
    let (mut read, mut tests) = (Vec::new(), BTreeSet::new());
    for file in files(source.strip_prefix(project_root()).unwrap().to_str().unwrap(), &[".rs"]) {
        let name = file.strip_prefix(source).unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let is_test = name.split('/').any(|part| matches!(part, "tests" | "testing" | "threads"));
        let is_other_root = matches!(name.as_str(), "lib" | "main") && format!("{name}.rs") != root;
        if is_test || is_other_root {
            continue;
        }
        let name = name.trim_end_matches("/mod");
        let names: Names =
            if matches!(name, "lib" | "main") { Names::new() } else { name.split('/').map(str::to_owned).collect() };
        let text = fs::read_to_string(&file).unwrap();
        tests.extend(test_modules(&text).into_iter().map(|name| [&names[..], &[name]].concat()));
        read.push((names, file, product(&text)));
    }
    read.retain(|(names, ..)| !tests.iter().any(|test| names.starts_with(test)));
    read
}

/// The modules that a module declares for its tests only.
fn test_modules(text: &str) -> Vec<String> {
    let mut is_test = false;
    let names = text.lines().filter_map(|line| {
        let was_test = is_test;
        is_test = line.starts_with("#[cfg(test)]") || (is_test && line.starts_with("#["));
        let name = line.strip_suffix(';')?.rsplit_once("mod ")?.1;
        was_test.then(|| name.to_owned())
    });
    names.collect()
}

/// The text without comments and tests.
pub(crate) fn product(text: &str) -> String {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    match code.find("#[cfg(test)]\nmod tests {") {
        Some(start) => code[..start].to_owned(),
        None => code,
    }
}
