mod rules;
mod scale;
mod simulation;
