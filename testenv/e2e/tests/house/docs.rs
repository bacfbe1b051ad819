//! Documents: the index of the decision records, the features table and the paths in docs/architecture.md.
//!
//! `UPDATE_DOCS=1` rewrites what is generated.

use std::fs;

use portcullis_harness::project_root;
use serde_json::Value;

use crate::texts::files;
use crate::threats;

fn read(path: &str) -> String {
    fs::read_to_string(project_root().join(path)).unwrap()
}

/// Checks the part of a page between two markers, or rewrites it.
pub(crate) fn assert_generated(path: &str, name: &str, expected: &str) {
    let page = read(path);
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let (head, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("{path} has no {begin}"));
    let (part, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("{path} has no {end}"));
    if part != expected && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(project_root().join(path), format!("{head}{begin}{expected}{end}{tail}")).unwrap();
    } else {
        assert_eq!(part, expected, "UPDATE_DOCS=1 writes {path}");
    }
}

#[test]
fn decision_index_lists_every_record() {
    let mut index = String::from("| number | decision |\n|---|---|\n");
    for path in files("docs/decisions", &[".md"]) {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if file == "README.md" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let heading = text.lines().next().unwrap().strip_prefix("# ").unwrap();
        let (number, title) = heading.split_once(' ').unwrap();
        assert!(number.len() == 4 && number.parse::<u32>().is_ok(), "{file}: the heading begins with the number");
        // A link without the right title still says what was decided.
        let words = |text: &str| text.to_lowercase().replace('\'', "").replace(|c: char| !c.is_alphanumeric(), " ");
        let slug: Vec<String> = words(title).split_whitespace().map(str::to_owned).collect();
        assert_eq!(file, format!("{number}-{}.md", slug.join("-")), "a record's file is named after its title");
        index += &format!("| {number} | [{title}]({file}) |\n");
    }
    assert_generated("docs/decisions/README.md", "index", &index);
}

/// A test as a link to its file, from a page below docs/.
fn test_link(path: &str, name: &str) -> String {
    let below_e2e = format!("testenv/e2e/tests/{path}.rs");
    let file = if project_root().join(&below_e2e).exists() { below_e2e } else { format!("{path}.rs") };
    format!("[{name}](../{file})")
}

#[test]
fn feature_tables_name_existing_tests() {
    let groups: Value = serde_json::from_str(&read("testenv/e2e/features.json")).unwrap();
    let (mut tables, mut faults) = (Vec::new(), Vec::new());
    for group in groups.as_array().unwrap() {
        let mut table =
            format!("## {}\n\n| feature | configuration | tests |\n|---|---|---|\n", group["group"].as_str().unwrap());
        for feature in group["features"].as_array().unwrap() {
            let text = |key: &str| feature[key].as_str().unwrap();
            let mut links = Vec::new();
            for test in feature["tests"].as_array().unwrap() {
                let (path, name) = test.as_str().unwrap().split_once(".rs::").unwrap();
                faults.extend(threats::fault(path, name));
                links.push(test_link(path, name));
            }
            assert!(!links.is_empty(), "{} has no test", text("feature"));
            table += &format!("| {} | {} | {} |\n", text("feature"), text("configure"), links.join(", "));
        }
        tables.push(table);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_generated("docs/features.md", "features", &tables.join("\n"));
}
