//! Names of images: none may lead to a registry in which anybody could take the name.

use std::fs;

use crate::texts::files;

/// The files that name images.
const PLACES: [&str; 7] =
    ["deploy", "docs", "envoy", "testenv/e2e/tests/kube/deploy", "docker-compose.yml", "Dockerfile", "README.md"];
/// The Dockerfile's stages that become images.
const IMAGES: [&str; 4] = ["control-plane", "gateway", "kubernetes", "tools"];

/// References to images in a text that a container engine could resolve.
fn resolvable(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['-', ' ']);
        // An image is pulled by this name: its host must be one that can never exist (RFC 6761, section 6.4).
        if let Some(name) = line.strip_prefix("image: ") {
            let host = name.trim_matches('"').split_once('/').map_or("", |(host, _)| host);
            if !host.ends_with(".invalid") {
                found.push(line.to_owned());
            }
        }
        // Without a host before it the name is one of a public registry's.
        for image in IMAGES.map(|image| format!("portcullis/{image}")) {
            let is_whole = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "/.-_".contains(c));
            if line.match_indices(&image).any(|(at, _)| is_whole(at)) {
                found.push(line.to_owned());
            }
        }
    }
    found
}

#[test]
fn image_names_resolve_to_no_registry() {
    let mut seen = 0;
    for path in PLACES.iter().flat_map(|place| files(place, &[".yaml", ".yml", ".md", "Dockerfile"])) {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(resolvable(&text), [""; 0], "{}", path.display());
        seen += text.matches("portcullis.invalid/").count();
    }
    assert!(seen > 10, "images are named {seen} times");
    for bad in
        ["image: portcullis/gateway", "- {name: portcullis/tools, newTag: 1}", "image: debian", "`portcullis/gateway`"]
    {
        assert!(!resolvable(bad).is_empty(), "{bad}");
    }
}
