"""What several verbs call and no user types: conversion, bisection, partitions, ORT format, locks, profiling, races."""
