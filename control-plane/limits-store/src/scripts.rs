//! The scripts that a store runs, each of them atomic.

use std::sync::LazyLock;

use redis::Script;

/// Reads limits, with the time and the generation. KEYS: the generation, then the limits.
pub(crate) static LOAD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local all = {time[1], time[2], redis.call('GET', KEYS[1]) or ''}
         for i = 2, #KEYS do
           for _, value in ipairs({'token', 'origin', 'state'}) do
             all[#all + 1] = redis.call('HGET', KEYS[i], value) or ''
           end
         end
         return all",
    )
});

/// Begins a generation if the last server that control planes wrote to was another one, or this control plane wrote to another one
/// before: this one may be a master for the second time, and what it wrote at first is no older than what it lost. KEYS: the server
/// and the generation; ARGV: the server's run id, `1` for a control plane that comes from another one, and a generation.
pub(crate) static ENTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if ARGV[2] == '1' or redis.call('GET', KEYS[1]) ~= ARGV[1] then
           redis.call('SET', KEYS[1], ARGV[1])
           redis.call('SET', KEYS[2], ARGV[3])
         end",
    )
});

/// Writes what nothing has changed since it was read: 1. The control plane that was too late has the next turn, 0, so that a distant
/// one is not too late each time; 2 if another one has it. KEYS: for each cluster its limits and its turn. ARGV: lifetime of limits,
/// that of a turn, origin, control plane, then for each cluster the tokens before and after, and the state.
pub(crate) static SAVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local saved = {}
         for i = 1, #KEYS / 2 do
           local limits, turn, a = KEYS[2 * i - 1], KEYS[2 * i], 2 + 3 * i
           local whose = redis.call('GET', turn)
           saved[i] = 0
           if whose and whose ~= ARGV[4] then
             saved[i] = 2
           elseif (redis.call('HGET', limits, 'token') or '') == ARGV[a] then
             redis.call('HSET', limits, 'token', ARGV[a + 1], 'origin', ARGV[3], 'state', ARGV[a + 2])
             redis.call('PEXPIRE', limits, ARGV[1])
             if whose then redis.call('PEXPIRE', turn, 0) end
             saved[i] = 1
           elseif tonumber(ARGV[2]) > 0 then
             redis.call('SET', turn, ARGV[4], 'PX', ARGV[2])
           end
         end
         return saved",
    )
});

/// Takes reports for this control plane: KEYS are those of processes, ARGV the lifetime and the numbers of their reports.
pub(crate) static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local claimed = {}
         for i = 1, #KEYS do
           local last = redis.call('GET', KEYS[i])
           claimed[i] = 0
           if not last or tonumber(last) < tonumber(ARGV[i + 1]) then
             redis.call('SET', KEYS[i], ARGV[i + 1], 'PX', ARGV[1])
             claimed[i] = 1
           end
         end
         return claimed",
    )
});
