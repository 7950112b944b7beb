export default mounted;
