//! The costs of functions and of the calls between them, from a file of callgrind that has addresses (`--dump-instr=yes`).

use std::collections::HashMap;

use super::executable::Executable;
use crate::profile::{Names, position};

/// A function that was executed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Spot {
    /// Of the executable, by its first address.
    Inside(u64),
    /// Of a library, by its object and its name, which is an address in a library without symbols.
    Outside(String, String),
}

/// Instructions of one thread.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// Of functions themselves.
    pub(crate) own: HashMap<Spot, u64>,
    /// Of calls and all that they call in turn: caller, callee.
    pub(crate) calls: HashMap<(Spot, Spot), u64>,
}

impl Costs {
    /// Reads a file ("Callgrind Format Specification" of its manual). `file_name` is the executable's file name. Its functions are
    /// known by addresses: callgrind itself takes code that is jumped to for a part of the function that jumps.
    pub(crate) fn parse(text: &str, executable: &Executable, file_name: &str) -> Self {
        let (mut costs, mut names) = (Costs::default(), Names::default());
        let [mut object, mut name, mut callee_object, mut callee] = [const { String::new() }; 4];
        let (mut at, mut is_call, mut holder) = (0_u64, false, None);
        let spot =
            |object: &str, name: &str, address: u64| match within(executable, object == file_name, object, address) {
                Some(address) => Spot::Inside(executable.function(address)),
                None => Spot::Outside(object.to_owned(), name.to_owned()),
            };
        for line in text.lines() {
            if let Some(value) = line.strip_prefix("ob=") {
                object = names.object(value);
            } else if let Some(value) = line.strip_prefix("fn=") {
                name = names.function(value);
                holder = Some(spot(&object, &name, entry(executable, &object, &name)));
                // A call without an object is one within the caller's.
                callee_object.clone_from(&object);
            } else if let Some(value) = line.strip_prefix("cob=") {
                callee_object = names.object(value);
            } else if let Some(value) = line.strip_prefix("cfn=") {
                callee = names.function(value);
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if let Some((moved, cost)) = position(line, at) {
                at = moved;
                let caller = spot(&object, &name, at);
                if std::mem::take(&mut is_call) {
                    let callee = spot(&callee_object, &callee, entry(executable, &callee_object, &callee));
                    *costs.calls.entry((caller, callee)).or_default() += cost;
                    callee_object.clone_from(&object);
                } else {
                    // Jumped to: a call without a cost of its own, so that the function has a caller.
                    if let Some(holder) = holder.clone().filter(|holder| *holder != caller) {
                        costs.calls.entry((holder, caller.clone())).or_default();
                    }
                    *costs.own.entry(caller).or_default() += cost;
                }
            }
        }
        costs
    }
}

/// The place in memory of an executable that can be loaded anywhere, under valgrind on x86-64.
const LOADED_AT: u64 = 0x10_8000;
/// callgrind's name for what is no object that it knows. It knows an executable's code by the section .text.
const NO_OBJECT: &str = "???";

/// An address in the executable's file, if it is one there; of other sections callgrind writes the address in memory.
fn within(executable: &Executable, is_text: bool, object: &str, address: u64) -> Option<u64> {
    let in_memory = || address.checked_sub(LOADED_AT).filter(|address| executable.is_code(*address));
    if is_text { Some(address) } else { in_memory().filter(|_| object == NO_OBJECT) }
}

/// The first address of a function as callgrind names it: by the address itself, or by its exported name.
fn entry(executable: &Executable, object: &str, name: &str) -> u64 {
    let digits = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let exported = || {
        let address = executable.exported.get(name).copied()?;
        Some(if object == NO_OBJECT { address + LOADED_AT } else { address })
    };
    digits.or_else(exported).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::executable::{Executable, Section};
    use super::{Costs, Spot};

    const FILE: &str = "positions: instr line\nevents: Ir\n\nob=(1) /opt/envoy\nfl=(1) ???\nfn=(1) 0x0000000000001000\n\
        0x1000 0 5\n+4 0 7\ncob=(2) /lib/libc.so\ncfi=(2) ???\ncfn=(2) memcpy\ncalls=2 0x40 0 \n* 0 100\n\
        cfn=(3) 0x0000000000002000\ncalls=1 0x2000 0 \n+5 0 30\n0x2008 0 1\n\nob=(2)\nfn=(2)\n0x40 0 100\n\
        cob=(3) ???\ncfn=(4) free\ncalls=1 0x10b000 0\n+4 0 9\n\nob=(3)\nfn=(4)\n0x10b000 0 9\n";

    #[test]
    fn costs_are_those_of_the_function_at_the_address() {
        let functions = vec![(0x1000, 0x1100), (0x2000, 0x2100), (0x3000, 0x3100)];
        let malloc =
            Section { name: "google_malloc".to_owned(), address: 0x3000, bytes: vec![0x90; 256], is_code: true };
        let executable = Executable {
            functions,
            sections: vec![malloc],
            exported: [("free".to_owned(), 0x3000)].into(),
            ..Executable::default()
        };
        let costs = Costs::parse(FILE, &executable, "envoy");
        let copy = Spot::Outside("libc.so".to_owned(), "memcpy".to_owned());
        // Jumped to: callgrind has it in the function at 0x1000.
        assert_eq!(costs.own.get(&Spot::Inside(0x2000)), Some(&1));
        assert_eq!(costs.own.get(&Spot::Inside(0x1000)), Some(&12));
        assert_eq!(costs.calls.get(&(Spot::Inside(0x2000), Spot::Inside(0x1000))), None);
        assert_eq!(costs.own.get(&copy), Some(&100));
        assert_eq!(costs.own.get(&Spot::Inside(0x3000)), Some(&9));
        assert_eq!(costs.calls.get(&(copy.clone(), Spot::Inside(0x3000))), Some(&9));
        assert_eq!(costs.calls.get(&(Spot::Inside(0x1000), copy)), Some(&100));
        assert_eq!(costs.calls.get(&(Spot::Inside(0x1000), Spot::Inside(0x2000))), Some(&30));
    }
}
