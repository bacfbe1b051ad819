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

/// Anchors of a page, made from its headings as code hosts make them.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            words.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
        })
        .collect()
}

/// Targets of the links in a page, without those in code blocks and on the network.
fn links(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    let targets = prose.flat_map(|text| text.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace)).collect()
}

#[test]
fn links_between_documents_resolve() {
    let mut faults = Vec::new();
    let mut pages = files("docs", &[".md"]);
    let others = ["deploy", "envoy", "examples", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    pages.extend(others.iter().flat_map(|place| files(place, &[".md"])));
    assert!(pages.len() > 70, "{}", pages.len());
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            if !target.exists() {
                faults.push(format!("{}: {link}: no such file", page.display()));
            } else if !anchor.is_empty() && is_page {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                if !headings.iter().any(|heading| heading == anchor) {
                    faults.push(format!("{}: {link}: no such heading", page.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(links("[a](b.md#c) ```\n[d](e)\n``` [f](https://g) [h](#i)"), ["b.md#c", "#i"]);
    assert_eq!(anchors("# A `b`\ntext\n## C: d, e"), ["a-b", "c-d-e"]);
}

/// Functions of the map in docs/architecture.md, with their types where these make them unambiguous: each is defined in a file
/// of its row.
#[test]
fn architecture_map_names_existing_functions() {
    let page = read("docs/architecture.md");
    let map = page.split("## From question to code\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let (mut named, mut faults) = (0, Vec::new());
    for row in map.lines().filter(|line| line.starts_with("| ") && line.contains("](../")) {
        let paths = links(row);
        let sources = paths.iter().flat_map(|path| files(path.trim_start_matches("../"), &[".rs"]));
        let text: String = sources.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert!(!text.is_empty(), "{row}");
        let functions = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for function in functions.split('`').skip(1).step_by(2) {
            named += 1;
            let name = function.rsplit("::").next().unwrap();
            if !["(", "<"].iter().any(|end| text.contains(&format!("fn {name}{end}"))) {
                faults.push(format!("docs/architecture.md: {} have no function {name}", paths.join(", ")));
            }
        }
    }
    assert!(named > 20 && faults.is_empty(), "{named}\n{}", faults.join("\n"));
}

/// Paths of the project in documents: in backquotes, with a folder of the root before the first slash.
#[test]
fn paths_in_documents_exist() {
    const FOLDERS: [&str; 7] = ["filters/", "control-plane/", "testenv/", "envoy/", "deploy/", "docs/", "examples/"];
    let mut faults = Vec::new();
    for page in files("docs", &[".md"]).into_iter().chain(files("CONTRIBUTING.md", &[".md"])) {
        let text = fs::read_to_string(&page).unwrap();
        // Decisions describe the tree of their day.
        if page.components().any(|part| part.as_os_str() == "decisions") {
            continue;
        }
        for line in text.lines().filter(|line| !line.starts_with("    ")) {
            for word in line.split('`').skip(1).step_by(2) {
                let path = word.split(".rs::").next().unwrap();
                let path = if path == word { path.to_owned() } else { format!("{path}.rs") };
                let is_path =
                    FOLDERS.iter().any(|folder| path.starts_with(folder)) && !path.contains(['*', ' ', '<', '{']);
                let places = [project_root(), project_root().join("testenv/e2e/tests/kube")];
                if is_path && !places.iter().any(|place| place.join(&path).exists()) {
                    faults.push(format!("{}: {path}", page.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The picture of the product crates follows from their manifests.
#[test]
fn crate_picture_matches_the_manifests() {
    let members = read("Cargo.toml");
    let members = members.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    let product: Vec<&str> = members.filter(|member| !member.starts_with("testenv")).collect();
    let package = |manifest: &str| manifest.split("name = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let manifests: Vec<(&str, String)> =
        product.iter().map(|member| (*member, read(&format!("{member}/Cargo.toml")))).collect();
    let short = |member: &str| member.rsplit('/').next().unwrap().to_owned();
    let mut picture = String::from("```mermaid\nflowchart TD\n");
    for (member, manifest) in &manifests {
        // Tests may use more; the picture shows what is built into the products.
        let sections =
            manifest.split("\n[").filter(|section| !section.lines().next().unwrap_or("").contains("dev-dependencies]"));
        let built: String = sections.filter(|section| section.contains("dependencies]")).collect();
        for (other, other_manifest) in &manifests {
            let name = package(other_manifest);
            if built.lines().any(|line| line.split(['.', ' ']).next() == Some(name.as_str())) {
                picture += &format!("    {} --> {}\n", short(member), short(other));
            }
        }
    }
    picture += "```\n";
    assert_generated("docs/architecture.md", "crates", &picture);
}
