use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_attach::HostPattern;

/// By variant the host names below its wildcards that are not its own, in order, but for those that are below another one of these: a
/// name belongs to the closest pattern above it. Each is of one variant, however many have wildcards above it. `others` are of no
/// variant.
pub(super) fn narrower_names<'a>(
    variants: impl Iterator<Item = (&'a str, &'a BTreeSet<&'a HostPattern>)>,
    others: &[String],
) -> BTreeMap<&'a str, Vec<String>> {
    let others = others.iter().filter_map(|name| HostPattern::parse(name)).map(|name| (name, None));
    let own = variants.flat_map(|(variant, names)| names.iter().map(move |name| ((*name).clone(), Some(variant))));
    let owners: HashMap<HostPattern, Option<&str>> = others.chain(own).collect();
    let mut narrower: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, owner) in &owners {
        let above = name.wider().find_map(|wider| owners.get(&wider).copied()).flatten();
        if let Some(above) = above.filter(|above| *owner != Some(above)) {
            narrower.entry(above).or_default().push(name.to_string());
        }
    }
    narrower.values_mut().for_each(|names| names.sort_unstable());
    narrower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_belongs_to_the_closest_pattern_above_it() {
        let hosts = |names: &[&str]| -> Vec<HostPattern> {
            names.iter().map(|name| HostPattern::parse(name).unwrap_or(HostPattern::Any)).collect()
        };
        let table = [
            ("", hosts(&["x.wide.test", "*.own.deep.wide.test"])),
            ("*/team/a", hosts(&["*.wide.test", "a.deep.wide.test", "y.wide.test"])),
            ("*/team/any", hosts(&["*"])),
        ];
        let variants: Vec<_> = table.iter().map(|(variant, hosts)| (*variant, hosts.iter().collect())).collect();
        let others = ["*.deep.wide.test", "b.deep.wide.test", "z.wide.test", "other.test"].map(str::to_owned);
        let narrower = narrower_names(variants.iter().map(|(variant, hosts)| (*variant, hosts)), &others);
        let expected: [(&str, &[&str]); 2] = [
            ("*/team/a", &["*.deep.wide.test", "x.wide.test", "z.wide.test"]),
            ("*/team/any", &["*.wide.test", "other.test"]),
        ];
        assert_eq!(narrower.len(), expected.len());
        for (variant, names) in expected {
            assert_eq!(narrower[variant], names, "{variant}");
        }
    }
}
