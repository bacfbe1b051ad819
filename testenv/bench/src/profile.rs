//! Reading callgrind's files: what a thread executed, by object and by the calls between Envoy and the module.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The instructions of one thread in one round.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// callgrind's file.
    pub(crate) file: PathBuf,
    /// Instructions.
    pub(crate) total: u64,
    /// Instructions by the object (executable or library) that they belong to.
    pub(crate) objects: BTreeMap<String, u64>,
    /// Calls, and instructions with everything called from there, by the name of a hook or callback.
    pub(crate) calls: BTreeMap<String, Call>,
}

/// Calls of one function.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    /// How many.
    pub(crate) count: u64,
    /// The instructions of them and of everything below them.
    pub(crate) inclusive: u64,
}

/// All hooks and callbacks start so.
const ABI: &str = "envoy_dynamic_module_";

impl Profile {
    /// Reads a file of callgrind ("Callgrind Format Specification" of its manual; one event).
    pub(crate) fn parse(text: &str) -> Self {
        let (mut profile, mut names) = (Profile::default(), Names::default());
        let (mut object, mut callee) = (String::new(), String::new());
        let mut pending: Option<u64> = None;
        for line in text.lines() {
            if let Some(value) = line.strip_prefix("ob=") {
                object = names.object(value);
            } else if let Some(value) = line.strip_prefix("cob=") {
                names.object(value);
            } else if let Some(value) = line.strip_prefix("fn=") {
                names.function(value);
            } else if let Some(value) = line.strip_prefix("cfn=") {
                callee = names.function(value);
            } else if let Some(value) = line.strip_prefix("calls=") {
                pending = value.split(' ').next().and_then(|count| count.parse().ok());
            } else if let Some((_, cost)) = position(line, 0) {
                match pending.take() {
                    Some(count) => profile.called(&callee, count, cost),
                    None => profile.executed(&object, cost),
                }
            }
        }
        profile
    }

    fn called(&mut self, callee: &str, count: u64, inclusive: u64) {
        if let Some(name) = callee.strip_prefix(ABI) {
            let call = self.calls.entry(name.to_owned()).or_default();
            call.count += count;
            call.inclusive += inclusive;
        }
    }

    fn executed(&mut self, object: &str, cost: u64) {
        self.total += cost;
        *self.objects.entry(object.to_owned()).or_default() += cost;
    }
}

/// The address (or line, in a file without addresses) and the cost of a line, if it is one about costs. `before` is the address of
/// the line about costs before it.
pub(crate) fn position(line: &str, before: u64) -> Option<(u64, u64)> {
    let (first, rest) = line.trim_end().split_once(' ')?;
    let address = match first.split_at_checked(1)? {
        ("*", _) => before,
        ("+", distance) => before.wrapping_add(distance.parse().ok()?),
        ("-", distance) => before.wrapping_sub(distance.parse().ok()?),
        _ => match first.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => first.parse().ok()?,
        },
    };
    Some((address, rest.rsplit(' ').next()?.parse().ok()?))
}

/// Names are in full at first, `(3) name`, and abbreviated later, `(3)`.
#[derive(Default)]
pub(crate) struct Names {
    objects: HashMap<String, String>,
    functions: HashMap<String, String>,
}

impl Names {
    /// The file name of an object.
    pub(crate) fn object(&mut self, value: &str) -> String {
        let name = resolve(&mut self.objects, value);
        name.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The name of a function.
    pub(crate) fn function(&mut self, value: &str) -> String {
        resolve(&mut self.functions, value)
    }
}

fn resolve(known: &mut HashMap<String, String>, value: &str) -> String {
    match value.split_once(' ') {
        Some((id, name)) => {
            known.insert(id.to_owned(), name.to_owned());
            name.to_owned()
        }
        None => known.get(value).cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Profile, position};

    #[test]
    fn positions_are_absolute_or_by_the_one_before() {
        for (line, wanted) in [
            ("0x2290 0 1", Some((0x2290, 1))),
            ("+7 0 20", Some((107, 20))),
            ("-11 * 4", Some((89, 4))),
            ("* * 741516 ", Some((100, 741_516))),
            ("12 100", Some((12, 100))),
            ("fn=(1) main", None),
            ("part: 1", None),
            ("", None),
        ] {
            assert_eq!(position(line, 100), wanted, "{line}");
        }
    }

    #[test]
    fn costs_are_told_from_calls() {
        let file = "events: Ir\n\nob=(1) /opt/envoy\nfn=(1) main\n10 5\n+1 7\ncob=(2) /lib/libm.so\n\
            cfn=(2) envoy_dynamic_module_on_x\ncalls=2 30\n12 100\n\nob=(2)\nfn=(2)\n30 100\n\nob=(1)\nfn=(3) f\n* 1\n\
            cob=(2)\ncfn=(2)\ncalls=1 30\n* 50\ntotals: 113\n";
        let profile = Profile::parse(file);
        assert_eq!(profile.total, 113);
        assert_eq!(profile.objects.get("envoy"), Some(&13));
        assert_eq!(profile.objects.get("libm.so"), Some(&100));
        let call = profile.calls.get("on_x").copied().unwrap_or_default();
        assert_eq!((call.count, call.inclusive), (3, 150));
    }
}
