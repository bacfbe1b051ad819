use std::{fs, io};

use portcullis_harness::project_root;

/// The commands of a section of a page, in order: its code that is indented, or fenced without a language, with the lines that a
/// backslash continues. `heading` is the whole line; the section ends at the next heading. None if the page has no such line.
///
/// # Errors
/// That of the file system, if the page cannot be read.
pub fn documented_commands(page: &str, heading: &str) -> io::Result<Vec<String>> {
    Ok(commands_below(&fs::read_to_string(project_root().join(page))?, heading))
}

fn commands_below(text: &str, heading: &str) -> Vec<String> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    let (mut commands, mut begun, mut fence) = (Vec::new(), String::new(), None);
    for line in section {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = fence.is_none().then_some(language);
            continue;
        }
        if fence.map_or(!line.starts_with("    "), |language| !language.is_empty()) {
            continue;
        }
        begun += line.trim().trim_end_matches('\\');
        if !line.ends_with('\\') {
            commands.push(std::mem::take(&mut begun));
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::commands_below;

    #[test]
    fn commands_are_the_code_of_a_section() {
        let page = "# Zero\n```\nfenced\n```\n```yaml\nspec:\n    a: 1\n```\n    more\n# One\n\n    first\n\n## Two\n\n1. Text:\n\n       a | b # c\n       d \\\n           e\n\n   More text.\n\n    f\n# Three\n    g\n";
        assert_eq!(commands_below(page, "## Two"), ["a | b # c", "d e", "f"]);
        assert_eq!(commands_below(page, "# Zero"), ["fenced", "more"]);
        assert_eq!(commands_below(page, "# One"), ["first"]);
        assert!(commands_below(page, "## No such heading").is_empty());
    }
}
