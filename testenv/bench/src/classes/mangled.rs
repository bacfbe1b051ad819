//! Names of C++ types and functions as compilers write them (Itanium C++ ABI, "Mangling"): paths of plain names, without
//! arguments of templates.

/// The type of Envoy's that a name is about: itself, or the first among a template's arguments.
pub(crate) fn of_envoy(mangled: &str) -> Option<String> {
    let at = mangled.find("N5Envoy")?;
    path(mangled.get(at..)?)
}

/// The path of a name: `N5Envoy4Http7FactoryE` is `Envoy::Http::Factory`.
pub(crate) fn path(mangled: &str) -> Option<String> {
    let mangled = mangled.trim_start_matches(['*', 'Z']);
    let (mut rest, is_nested) = match mangled.strip_prefix('N') {
        Some(rest) => (rest.trim_start_matches('K'), true),
        None => (mangled, false),
    };
    let mut parts: Vec<&str> = Vec::new();
    if let Some(after) = rest.strip_prefix("St") {
        parts.push("std");
        rest = after;
    }
    while let Some((name, after)) = source_name(rest) {
        // The version of the standard library's namespace, and namespaces without a name.
        if !["__1", "_GLOBAL__N_1"].contains(&name) {
            parts.push(name);
        }
        rest = after;
        if !is_nested {
            break;
        }
    }
    let mut path = parts.join("::");
    if rest.starts_with('I') {
        path.push_str("<>");
    }
    (!parts.is_empty()).then_some(path)
}

/// A name behind its length in bytes.
fn source_name(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (length, rest) = text.split_at_checked(digits)?;
    rest.split_at_checked(length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::{of_envoy, path};

    #[test]
    fn names_are_read_up_to_their_templates() {
        for (mangled, wanted) in [
            ("N5Envoy4Http21ConnectionManagerImpl12ActiveStreamE", "Envoy::Http::ConnectionManagerImpl::ActiveStream"),
            ("N5Envoy12LinkedObjectINS_4Http6StreamEEE", "Envoy::LinkedObject<>"),
            ("NSt3__110__function6__funcIZN5Envoy1X1yEvE3$_0FvvEEE", "std::__function::__func<>"),
            ("10HotRestart", "HotRestart"),
            ("N5Envoy12_GLOBAL__N_14HomeE", "Envoy::Home"),
        ] {
            let found = path(mangled).unwrap();
            assert!(found.starts_with(wanted), "{mangled}: {found}");
        }
        assert_eq!(path("x"), None);
        assert_eq!(path("N99Short"), None);
    }

    #[test]
    fn closure_is_of_the_function_that_makes_it() {
        let closure = "NSt3__110__function6__funcIZN5Envoy4Http5Codec7onDrainENS2_7Network5EventEE3$_0FvvEEE";
        assert_eq!(of_envoy(closure).as_deref(), Some("Envoy::Http::Codec::onDrain"));
        assert_eq!(of_envoy("NSt3__16vectorE"), None);
    }
}
