//! The labels of an answer, as a number.

use super::counters::CounterKey;
use super::resource::REST;
use super::servers::ServerCode;
use super::status_code;
use super::verb::{ReportedVerb, Scope};

/// The labels of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseKey {
    pub(super) server: ServerCode,
    /// [`super::resource::ResourceLabels::code`]
    pub(super) resource: u16,
    pub(super) verb: ReportedVerb,
    pub(super) scope: Scope,
    /// [`status_code::reported`]; the first digit alone in what counts together for want of room.
    pub(super) code: u16,
}

/// The [`ResponseKey::number`] of a request's answer.
pub(super) fn number(server: ServerCode, request: CounterKey, code: u16) -> u64 {
    let CounterKey { resource, verb, scope, .. } = request;
    u64::from(server.0) << 48
        | u64::from(resource) << 32
        | u64::from(verb) << 24
        | u64::from(scope) << 16
        | u64::from(code)
}

impl ResponseKey {
    pub(super) fn number(self) -> u64 {
        let ResponseKey { server, resource, verb, scope, code } = self;
        let request = CounterKey { resource, verb: verb.code(), scope: scope.code(), ..CounterKey::default() };
        number(server, request, code)
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes apart what `number` has put together")]
    pub(super) fn of_number(number: u64) -> Self {
        ResponseKey {
            server: ServerCode((number >> 48) as u16),
            resource: (number >> 32) as u16,
            verb: ReportedVerb::of_code((number >> 24) as u8),
            scope: Scope::of_code((number >> 16) as u8),
            code: number as u16,
        }
    }

    /// The key of everything that has no room of its own. Kept are the class of the status, and whether it was
    /// refused, had no server, or had one: two alerts depend on them.
    pub(super) fn rest(self) -> Self {
        ResponseKey {
            server: if self.server.is_server() { ServerCode::ANY } else { self.server },
            resource: REST,
            verb: ReportedVerb::Other,
            scope: Scope::None,
            code: status_code::class(self.code),
        }
    }

    /// Whether it counts what has no room of its own.
    pub(super) fn is_rest(self) -> bool {
        self.resource == REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_survives_its_number() {
        for server in [ServerCode::NONE, ServerCode(3), ServerCode::UNKNOWN, ServerCode::ANY] {
            let (verb, scope) = (ReportedVerb::Connect, Scope::Resource);
            let key = ResponseKey { server, resource: u16::MAX, verb, scope, code: 508 };
            assert_eq!(ResponseKey::of_number(key.number()), key);
            let rest = key.rest();
            assert!(rest.is_rest() && rest.code == 5 && rest.server.is_server() == server.is_server(), "{rest:?}");
            assert_eq!(rest.rest(), rest);
        }
    }
}
